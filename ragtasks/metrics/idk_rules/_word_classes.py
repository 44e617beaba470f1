"""The words that refusals and answers are made of, by what they do; in lower case, without contractions.

A plural that is not listed counts as its singular. A word may do more than one thing.
"""

from __future__ import annotations

WORDS: dict[str, str] = {
    # What was retrieved, and what it consists of.
    "SOURCE": (
        "archive archives article articles author authors base catalog catalogue chapter comment comments content "
        "contents context contexts conversation corpus coverage data database description descriptions details "
        "document documentation documents entries entry excerpt excerpts extract extracts faq faqs file files "
        "guide guides handbook history index info information input knowledge library listing listings literature "
        "manual manuals material materials note notes page pages passage passages policies policy post posts "
        "record records reference references report reports resource resources result results search section "
        "sections site sites snippet snippets source sources summaries summary table tables text texts thread "
        "threads transcript website"
    ),
    # Who answers.
    "SPEAKER": ("assistant bot i me my our system us we"),
    # Negations.
    "NOT": (
        "barely bupkis cannot hardly nada nah neither never no nobody none noone nope nor not nothing nowhere "
        "without zilch"
    ),
    # Words that say by themselves that something is not there.
    "LACK": (
        "absence absent aside beyond blank confined dunno elsewhere empty fail failed fails gap gaps idk "
        "incomplete inconclusive insufficient lack lacked lacking lacks limited missing omit omits omitted open "
        "outside scant short silence silent stumped thin unable unaddressed unanswerable unanswered unavailable "
        "uncatalogued uncertain unclear unconfirmed uncovered undefined undescribed undetermined undisclosed "
        "undocumented unknown unlisted unmentioned unreadable unrecorded unseen unspecified unstated unsupported "
        "unsure untouched"
    ),
    # What a source does with information, in the forms that occur.
    "SAY": (
        "address addressed addresses addressing answer answered answering answers appear appeared appears attempt "
        "attempts attribute attributes bear bears break breaks carried carries carry catalogue catalogued "
        "clarified clarifies clarify come comes compare compared compares confirm confirmed confirms connect "
        "connects contain contained containing contains cover covered covering covers deal deals dealt define "
        "defined defines describe described describes describing detail detailed detailing details disclose "
        "disclosed discloses discuss discussed discusses discussing document documented documents draw draws "
        "elaborate elaborates establish establishes explain explained explaining explains extend extends feature "
        "features get gets give given gives giving go goes held help helps hold holds identified identifies "
        "identify include included includes including index indexed indicate indicated indicates list listed "
        "listing lists make makes mention mentioned mentioning mentions name named names naming note noted notes "
        "occur occurs offer offered offers outline outlined outlines point pointed points provide provided "
        "provides providing publish published publishes put puts quantifies quantify quote quoted quotes raise "
        "raised raises rank ranking ranks reach recommend recommends record recorded records refer referred "
        "refers report reported reporting reports resolve resolves reveal reveals said say saying says set sets "
        "settle settles shed show showed shown shows speak speaks specified specifies specify specifying spell "
        "spelled spells state stated states stating store stored stores suggest suggests supplied supplies supply "
        "support supported supports talk talks tell telling tells told touch touches track tracked tracks venture "
        "ventures verified verify"
    ),
    # What one who answers does with it.
    "FIND": (
        "access accessed advise answer ascertain assess came check come comment compare conclude confirm "
        "determine determined determining establish estimate figure find finding finds found gauge give guess "
        "help identify judge know knowing known knows list locate located look name offer pin pinpoint point "
        "predict promise provide pull quote recall recommend resolve retrieve retrieved return returned returns "
        "rule saw say see seeing seen sees settle share speak speculate spot surface surfaced tell turn turned "
        "verify vouch work"
    ),
    # What is asked for.
    "INFORMATION": (
        "answer answers basis breakdown clarity clue comparison confirmation cost costs coverage data date dates "
        "definition description detail details documentation entry estimate evidence example examples explanation "
        "figure figures guidance hint hit hits idea indication info information insight instructions list lists "
        "luck match matches material mention name names number numbers particulars price prices pricing ranking "
        "recommendation recommendations record records reference result results schedule specifics statistic "
        "statistics step steps timeline trace way word"
    ),
    # How what was retrieved is said to be at hand.
    "AT_HAND": (
        "above access attached available current front given hand here indexed material provided retrieved "
        "returned shared supplied"
    ),
    # Where to look instead, and how one is told to.
    "ADVICE": (
        "accurate advise adviser advisor agency agent ask attorney best better browse call check confirm consider "
        "consult contact current department desk directly doctor email help helpful latest lawyer local look "
        "office official please professional reach recommend recommended refer review search see speak specialist "
        "start suggest support team ticket try verify visit website worth"
    ),
    # Offers and requests.
    "OFFER": (
        "another can could else feel free further glad happy know let like more need question questions share "
        "tell want would"
    ),
    # Turns to something else.
    "CONTRAST": (
        "although apart beyond but however instead nevertheless nonetheless only otherwise said still that though "
        "whereas while yet"
    ),
    # Words that open an indirect question.
    "WHICH": ("how if what when where whether which who whom whose why"),
    # Words that narrow down what is missing.
    "EXACT": ("actual definitive directly exact exactly explicit explicitly particular precise specific specifically"),
    # Forms of to be.
    "BE": ("am are be been being is was were"),
}
"""What words do -> the words, apart by blanks."""

FUNCTION_WORDS = (
    "the a an of to in on for from by with as at this that these those it they there you your he she his her "
    "its their and or so than then any some all do does did has have had having will would can could may "
    "might must should shall about into up out if because since just also very more most much many one two "
    "other another each every both either own same such even already too quite rather"
)
"""Words of grammar, which stand for themselves."""

WHO_LACKS: dict[str, str] = {
    # Where another subject may begin.
    "START": ", : but however although though while whereas because since",
    # Verbs whose "not" is about what the subject does; without an object ("the file is not found") it is not.
    "AUXILIARY": "do does did can could will would may might has have had unable",
    # Verbs whose subject is the topic: "prices do not come up".
    "COME_UP": "appear appears appeared come came turn turned occur feature figure show surface surfaced",
    # Verbs of there being something.
    "EXIST": "exist exists existed survive survives survived",
    # Signs that are objects: "the letters give no date".
    "NO": "no nothing neither none",
    # What stands before such a sign where it is no object.
    "NO_VERB": "is are was were be been there and or with of in on for to by from that",
    # What opens a clause about something that its noun lacks: "a claim for which no papers were given".
    "OF_WHICH": "which whom whose",
    # What stands before it.
    "OF": "about at for from in of on to under with",
    # Who searches and tells, and is neither a source nor the speaker.
    "PERSON": "he she",
    # What dates the end of an absence: "no mention of it before 1871".
    "UNTIL": "before until till",
    # What is done with information by those who have it.
    "GIVEN": "given provided released disclosed shared",
    # What opens who does it, or how.
    "WITHHELD": "by over to unless until without",
    # What nobody but the one who asked is said to have.
    "READER": "you your yours yourself",
    # What a thing of the world has not been; what was retrieved has not been "provided".
    "HANDED": "provided given shared supplied included listed mentioned offered specified stated",
    # Pronouns of what was named before, be it what was retrieved.
    "IT": "it they this that these those which either both one",
    # People, and sources that may as well be what an answer is about.
    "OTHERS": "he she author authors policy policies library history report reports",
}
"""Words by which is told who lacks what a sentence says is lacking, as `WORDS`."""
