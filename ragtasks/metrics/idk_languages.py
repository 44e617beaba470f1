"""Refusals in other languages than English: one small table a language, of phrase families by meaning.

A response is cut into clauses. A clause refuses where a pattern of its language's table says that the speaker does not
know, that what was retrieved is silent, or that what was asked cannot be said; not where somebody else says so, nor under a
condition. A refusal with an answer beside it is `partial`. English is read by `idk_rules`, which knows more.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from ragtasks.metrics._answer_text import language_of
from ragtasks.records import IdkVerdict

ANSWER_WORDS = 6
"""Words beside a refusal that make an answer."""
_FOLDED = frozenset({"ar", "de", "fr", "it", "nl", "pt", "ru"})
"""Languages that are read without accents, as many write them so; in the others, a mark tells words apart."""
_UNSPACED = frozenset({"ja", "zh"})
_LETTERS_A_WORD = 2
_QUOTES = re.compile(
    r"\u00ab[^\u00bb]*\u00bb|\u201e[^\u201c\u201d]*[\u201c\u201d]|\u201c[^\u201d]*\u201d|\u300c[^\u300d]*\u300d|\u300e[^\u300f]*\u300f"
    r"|\"[^\"\n]*\"|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_SENTENCE_END = re.compile(r"(?<=[.!?\u061f\u0964])\s+|(?<=[\u3002\uff01\uff1f])|\n+|[;\uff1b\u061b]\s*")
_WORD = re.compile(r"[^\W\d_]+")
_OPENING_MARKS = " \"'*(\u00bf\u00a1\u00ab\u201c\u201e"
# Those of another language of a table ("no", "in", "is") are left out.
_ENGLISH = frozenset(
    "and are at be been by can does for from had have he his how i if its my not of one or our she that the their them they this to "
    "were what when where which who will with would yes you your".split()
)
_SCRIPTS = (
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
"""Language -> its script, which alone tells that of a short text where no other language of a table writes so."""
_CLOSE = {"bg": "ru", "mk": "ru", "sr": "ru", "mr": "hi", "fa": "ar", "ur": "ar", "gl": "es"}
"""Language -> the one of a table that short texts in it are taken for."""
_SHORT = 60
"""Characters of a short text."""


@dataclass(frozen=True, slots=True)
class Table:
    """How one language refuses; patterns over text in lower case, `<S>` is what was retrieved."""

    source: str
    """What was retrieved: "the passages", "the documents at hand"."""
    speaker: str
    """The speaker does not know, has not found, cannot say."""
    silent: str
    """What was retrieved does not say."""
    asked: str
    """What was asked is not given, or cannot be answered."""
    contrast: str
    """What a clause of another mind opens with: "but"."""
    before: str
    """What makes a refusal behind it that of somebody else, or a condition: "he said that", "if"."""
    filler: str
    """Courtesy, offers, where to look instead."""
    common: str = ""
    """Frequent words that English lacks, which tell the language of a short text in Latin letters."""
    sure: str = ""
    """What only this language has, where others share its script."""


TABLES: dict[str, Table] = {
    "de": Table(
        source=(
            r"(?:(?:mir|uns|hier|oben) )?(?:(?:vorliegende|bereitgestellte|angegebene|gegebene|verfügbare|vorhandene"
            r"|abgerufene|gefundene|vorgelegte|gestellte|stehende)[nrsm]? )?(?:(?:text|such)?(?:passagen?|stellen?"
            r"|abschnitte?n?|auszüge?n?|auszug|ergebnisse?n?)|dokumente?n?|unterlagen|quellen?|kontext|texte?n?"
            r"|informationen|material(?:ien)?|artikeln?|wissens(?:basis|datenbank)|handbuch)"
        ),
        speaker=(
            r"\bich (?:\w+ ){0,3}?(?:weiß|kenne) (?:[^,.]{0,40} )?(?:nicht|nichts|kein\w*)\b|\bweiß ich (?:\w+ ){0,2}nicht"
            r"|\b(?:ich|wir) (?:\w+ ){0,3}?(?:kann|konnte|könnte|können|konnten|vermag)\b[^.]{0,120}\b(?:nicht|kein\w*|nichts)\b"
            r"|\b(?:kann|konnte|können|konnten) (?:ich|wir)\b[^.]{0,120}\b(?:nicht|kein\w*|nichts)\b"
            r"|\b(?:ich|wir) (?:\w+ ){0,3}?(?:habe|haben|finde|finden|fand|verfüge|besitze|sehe)\b[^.]{0,80}\b(?:nicht|nichts"
            r"|kein\w*)\b|\b(?:habe|haben|finde|finden) (?:ich|wir)\b[^.]{0,80}\b(?:nicht|nichts|kein\w*)\b"
            r"|\bich bin (?:mir )?(?:\w+ ){0,3}?(?:nicht|un)\s?(?:sicher|in der lage)|\bkeine ahnung\b"
            r"|\b(?:mir|uns) (?:\w+ ){0,2}?(?:liegen|liegt|fehlen|fehlt|ist|sind)\b[^.]{0,60}\b(?:kein\w*|nicht|informationen"
            r"|angaben|unbekannt)\b|\b(?:liegen|fehlen|liegt|fehlt|ist|sind) (?:mir|uns)\b[^.]{0,80}\b(?:kein\w*|nicht|informationen"
            r"|angaben|unbekannt)\b|\bweiß nicht\b|\bmeine[nrms]? (?:\w+ )?(?:wissen|kenntnisse?n?)\b[^.]{0,40}\b(?:nicht|kein)"
        ),
        silent=(
            r"\b<S> (?:[^.,]{0,60} )?(?:enth\w+|nenn\w+|erwähn\w+|geben|gibt|sag\w+|beschreib\w+|behandel\w+|beantwort\w+"
            r"|äuß\w+|geh\w+|mach\w+|liefer\w+|erklär\w+|biet\w+|verr\w+|gehen|steht|führ\w+|beleg\w+|erläuter\w+|lassen|reichen)\b"
            r"[^.]{0,120}\b(?:nicht|nichts|kein\w*)\b|\b<S> (?:[^.,]{0,60} )?schweig\w+|\bschweig\w+ (?:\w+ ){0,3}?<S>|\b(?:nenn|erwähn|sag|geb|enthalt|mach)en (?:\w+ ){0,3}?<S>[^.]{0,60}\b(?:nicht|nichts|kein\w*)\b"
            r"|\b(?:in|im|aus|von|laut|anhand|auf(?:grund| basis)) (?:\w+ ){0,3}?<S>\b[^.]{0,160}\b(?:nicht|nichts|kein\w*)\b"
            r"|\b(?:nicht|nichts|kein\w*)\b[^.]{0,120}\b(?:in|im|aus|von|anhand) (?:\w+ ){0,3}?<S>"
            r"|\bkeine[rs]? (?:der |dieser )?(?:\w+ )?<S>\b"
        ),
        asked=(
            r"(?:^|\b(?:es gibt|gibt es|liegen|liegt|finden sich|sind|stehen)\b[^.,]{0,50})(?:leider )?(?:keine|keinerlei|nicht"
            r" gen\w+|zu wenige?) (?:\w+ ){0,3}?(?:informationen?|angaben?|daten|hinweise?|details|antwort|aussagen?|erwähnung)\b"
            r"|\b(?:diese|die|ihre|deine) frage\b[^.]{0,80}\bnicht\b[^.]{0,30}\bbeantwort"
            r"|^(?:das|dies|es|dazu|darüber|hierzu|davon)\b[^.]{0,60}\b(?:nicht|nichts)\b[^.]{0,20}\b(?:erwähnt|genannt|angegeben|"
            r"bekannt|beschrieben|gesagt|beantworten|sagen|zu finden|geklärt|aufgeführt|ersichtlich|thematisiert|hervor)\b"
            r"|^(?:das|dazu|darüber|hierzu|davon) steht\b[^.]{0,30}\b(?:nicht|nichts)\b"
            r"|\b(?:wird|werden|ist|sind) (?:hier |leider |dort |darin |jedoch )*nicht (?:\w+ )?(?:erwähnt|genannt|angegeben|"
            r"thematisiert|behandelt|beschrieben|aufgeführt|erläutert|spezifiziert)\s*\W*$|^unbekannt\W*$"
        ),
        contrast=r"(?:aber|jedoch|allerdings|doch|dagegen|sondern)",
        before=(
            r"\b(?:er|sie|wir|man|\w+) (?:sagte|sagten|erklärte|antwortete|gab an|schrieb|räumte ein|meinte|behauptete)\b"
            r"|\b(?:wenn|falls|sofern|sollten?)\b"
        ),
        filler=r"\b(?:leider|entschuldigung|tut mir leid|bitte|wenden sie|gern|helfen|weitere fragen|empfehle|schauen sie)\b",
        common="das und ist nicht ich ein eine kein keine keinen es mit auf für im nein leider wird sich sie er weiß steht nichts dazu darüber wurde sind auch frage antwort einen einer aus nach bei jahr uhr ja",
    ),
    "fr": Table(
        source=(
            r"(?:passages?|extraits?|documents?|textes?|sources?|contextes?|articles?|informations|éléments|résultats"
            r"|documentation|base de connaissances|pages?|manuel)(?: (?:fournie?s?|donnée?s?|disponibles?|ci-dessus|consultée?s?"
            r"|retrouvée?s?|transmis|que j'ai|dont je dispose|à ma disposition))?"
        ),
        speaker=(
            r"\bje (?:(?:ne |n')(?:\w+ )?(?:\w+ )?(?:sais|connais|peux|puis|pouvais|trouve|dispose|vois|suis|parviens|arrive|possède"
            r"|saurais|pourrais)|n'ai)\b[^.]{0,60}|\bj'ignore\b|\b(?:nous )?ne (?:sais|savons|disposons|trouvons|pouvons)\b(?: pas| "
            r"d'aucun)|\baucune idée\b|\bnous n'avons (?:pas|aucun)|\bm'est (?:inconnu|impossible)|\bil m'est impossible"
            r"|\bj(?:e|') ?n'ai\b|\bje manque d"
        ),
        silent=(
            r"\b<S> (?:[^.,]{0,60} )?(?:ne |n')(?:\w+ ){0,3}?(?:pas|rien|aucun\w*|point|guère|nullement|ni)\b"
            r"|\b<S> (?:[^.,]{0,60} )?(?:ne |n')\w+[^.]{0,60}\b(?:pas|rien|aucun\w*)\b|\b<S> (?:\w+ )?(?:restent?|sont|est) (?:muet|silencieu)"
            r"|\b(?:aucune?|rien)\b[^.]{0,80}\b<S>|\b(?:ne |n')[^.]{0,80}\b(?:pas|rien|aucun\w*)\b[^.]{0,80}\b(?:dans|par|selon|sur la base|"
            r"parmi|à partir d\w*)\b[^.]{0,25}\b<S>|\b(?:dans|d'après|selon|à partir d\w*)\b[^.]{0,25}\b<S>[^.]{0,80}\b(?:ne |n')[^.]{0,60}\b"
            r"(?:pas|rien|aucun\w*)\b"
        ),
        asked=(
            r"\b(?:aucune|pas (?:assez )?d(?:e |'))(?:\w+ ){0,2}?(?:information|réponse|donnée|mention|précision|indication|détail)s?\b"
            r"(?! (?:personnelle|n'est (?:communiqué|donn|transm|divulgu)\w* (?:à|par|au)))"
            r"|\b(?:cette|votre|la|ta) question\b[^.]{0,60}\b(?:ne|n')[^.]{0,40}\b(?:pas|aucun)\b"
            r"|\b(?:impossible|pas possible) d(?:e |')(?:répondre|dire|déterminer|savoir|préciser)\b(?!.*\bsans (?!plus))"
            r"|^(?:ce(?:la|ci)?|ça|cette information|l'information|ce point|ce détail)\b[^.]{0,40}\b(?:n'|ne )[^.]{0,30}\bpas\b[^.]{0,30}\b"
            r"(?:mentionn|précis|indiqu|dit|fourni|disponible|donn|abord|évoqu|traité|connu)"
            r"|\b(?:n'est|n'a|ne sont|n'ont) pas (?:été )?(?:mentionn|précis|indiqu|abord|évoqu|spécifi|fourni)\w*\W*$"
            r"|^(?:inconnu|non (?:précisé|mentionné|indiqué|disponible))"
        ),
        contrast=r"(?:mais|cependant|toutefois|néanmoins|en revanche|par contre|pourtant)",
        before=(
            r"\b(?:il|elle|ils|elles|on|[\w-]+) (?:a |ont )?(?:dit|déclaré|répondu|affirmé|expliqué|écrit|admis|reconnu|avoué|indiqué) "
            r"(?:que|qu'|ne)|\bs'ils?\b|\bsi (?:vous|tu|le|la|les|l'|un|une|aucun)|\blorsqu|\bquand\b"
        ),
        filler=r"\b(?:désolé|malheureusement|veuillez|n'hésitez|contacte|consulte|je peux vous aider|merci|je vous (?:conseille|invite))",
        common="les est pas je une dans pour avec oui non elle sont ce cette sais il qui sur rien aucun aucune ans par au plus ça réponse désolé",
    ),
    "es": Table(
        source=(
            r"(?:pasajes?|fragmentos?|extractos?|documentos?|textos?|fuentes?|contextos?|artículos?|informaci[oó]n|materiales|material"
            r"|resultados|documentación|base de conocimientos?|páginas?|manual)(?: (?:proporcionad[oa]s?|dad[oa]s?|disponibles?|facilitad[oa]s?"
            r"|recuperad[oa]s?|anterior(?:es)?|consultad[oa]s?|que tengo))?"
        ),
        speaker=(
            r"\b(?:yo )?no (?:lo |le |te |me |se lo |la )?(?:sé|conozco|puedo|pude|podría|encuentro|encontré|dispongo|tengo|logro|logré|estoy segur"
            r"|cuento|sabría|veo|he (?:podido|encontrado|hallado|visto)|soy capaz|podemos|tenemos|hemos|disponemos|encontramos|recuerdo)\b"
            r"(?! (?:que|más remedio|nada en contra))"
            r"|\bdesconozco\b|\bni idea\b|\bno me (?:consta|es posible|resulta posible)|\bme es imposible|\bcarezco de|\bignoro\b"
        ),
        silent=(
            r"\b<S> (?:[^.,]{0,60} )?(?:no|tampoco|ni) (?:se |lo |la |me )?(?:\w+)|\bning[uú]n\w* (?:de (?:l[oa]s|est[oa]s) )?<S>"
            r"|\b<S> (?:\w+ )?(?:guarda|guardan) silencio|\b(?:no|nada|ningun[oa]?)\b[^.]{0,100}\b(?:en|de|por|seg[uú]n|con|a partir de)\b[^.]{0,25}\b<S>"
            r"|\b(?:en|según|a partir de|con)\b[^.]{0,25}\b<S>[^.]{0,60}\bno\b|\bnada (?:en|de)\b[^.]{0,25}\b<S>"
        ),
        asked=(
            r"\b(?:no (?:hay|existe|se (?:dispone|ha encontrado|encontró|encuentra|proporciona|ofrece|da|incluye)|aparece)\b[^.]{0,30}|^|\bsin )"
            r"(?:ningun[ao]?|suficientes?|bastante|más)? ?(?:información|datos|respuesta|menci[oó]n|detalles?|indicaci[oó]n)\b(?! (?:al público|personal))"
            r"|^(?:eso|esto|ello|ese dato|este dato|esa información|esta información|la respuesta|lo que pregunt\w+)\b[^.]{0,30}\bno\b"
            r"|^no (?:se )?(?:lo )?(?:menciona|especifica|indica|dice|aclara|detalla|precisa|consta|figura|aparece|puede (?:determinar|saber|responder))\w*"
            r"|\b(?:la|su|esta|tu) pregunta\b[^.]{0,60}\bno\b|\b(?:es imposible|no es posible) (?:responder|decir|determinar|saber|contestar)"
            r"\b(?!.*\bsin (?!más))|\bno (?:se|está|ha sido|fue) (?:\w+ )?(?:menciona|mencionado|especifica|especificad[oa]|indica|indicad[oa])\W*$|^desconocid[oa]"
        ),
        contrast=r"(?:pero|sin embargo|no obstante|aunque|en cambio)",
        before=(
            r"\b(?:dijo|dijeron|declar[oó]|respondi[oó]|afirm[oó]|explic[oó]|admiti[oó]|reconoci[oó]|escribi[oó]|confes[oó]|contest[oó]) (?:que|no)"
            r"|\bsi\b(?! bien)|\bcuando\b"
        ),
        filler=r"\b(?:lo siento|lamentablemente|por desgracia|disculp|le recomiendo|te recomiendo|consulte|consulta|contacte|puede que|gracias|ayudar)",
        common="los es un una por con para más está son su lo sí sé pero como hay nada ninguna ninguno qué información años fue desde según sobre se consta respuesta pregunta desconozco",
    ),
    "it": Table(
        source=(
            r"(?:passaggi|passaggio|brani|brano|estratti|estratto|documenti|documento|testi|testo|fonti|fonte|contesto|articoli|articolo|informazioni"
            r"|materiale|materiali|risultati|documentazione|base di conoscenza|pagine|pagina|manuale)(?: (?:fornit[oaie]|dat[oaie]|disponibil[ei]"
            r"|a (?:mia )?disposizione|recuperat[oaie]|consultat[oaie]|precedenti|che ho))?"
        ),
        speaker=(
            r"\b(?:io )?non (?:lo |la |ti |le |vi |ne |mi )?(?:so|conosco|posso|potrei|sono (?:sicur|in grado|cert|riuscit|a conoscenza)|trovo|dispongo"
            r"|ho|riesco|saprei|vedo|abbiamo|possiamo|disponiamo|siamo|risulta che|ricordo)\b(?! (?:dubbi|nulla in contrario))"
            r"|\bnon mi (?:risulta|è (?:possibile|noto|nota))|\bnon ne ho idea|\bnessuna idea\b|\bmi è impossibile|\bignoro\b|\bnon (?:lo )?so\b"
        ),
        silent=(
            r"\b<S> (?:[^.,]{0,60} )?(?:non|né) \w+|\bnessun[oa]? (?:de[lgi]+ |dei |delle )?<S>|\b<S> (?:\w+ )?(?:tace|tacciono)"
            r"|\b(?:non|nulla|niente|nessun\w*)\b[^.]{0,100}\b(?:ne[il]|nell\w+|da[il]|dall\w+|in|sulla base d\w+|secondo)\b[^.]{0,25}\b<S>"
            r"|\b(?:ne[il]|nell\w+|da[il]|dall\w+|in base a\w*|sulla base d\w+)[^.]{0,25}\b<S>[^.]{0,60}\b(?:non|nulla|niente)\b"
        ),
        asked=(
            r"\b(?:non (?:ci sono|c'è|vi sono|è (?:presente|disponibile|stata trovata)|sono (?:presenti|disponibili))\b[^.]{0,40}|^)(?:nessun[ao]? |alcun[ao]?"
            r" |abbastanza |sufficienti )?(?:informazion[ei]|dat[io]|risposta|menzione|dettagli|indicazion[ei])\b"
            r"|^(?:questo|ciò|questa informazione|quest'informazione|il dato|l'informazione|la risposta)\b[^.]{0,30}\bnon\b"
            r"|^non (?:viene|vengono|è|se ne|si) (?:\w+ )?(?:specificat|menzionat|indicat|detto|precisat|parla|riportat|dice|può (?:rispondere|dire|sapere|stabilire))"
            r"|\b(?:la|sua|tua|questa) domanda\b[^.]{0,60}\bnon\b|\b(?:è impossibile|non è possibile) (?:rispondere|dire|determinare|sapere|stabilire)\b"
            r"(?!.*\bsenza (?!ulteriori))|\bnon (?:viene|vengono|è|sono) (?:\w+ )?(?:menzionat|specificat|indicat|riportat|precisat)[oaie]\W*$|^sconosciut"
        ),
        contrast=r"(?:ma|però|tuttavia|anche se|invece)",
        before=(
            r"\b(?:ha|hanno) (?:detto|dichiarato|risposto|affermato|spiegato|ammesso|scritto)|\b(?:disse|dissero|rispose|dichiarò|ammise|scrisse)\b"
            r"|\bse\b(?! ne)|\bquando\b|\bqualora\b"
        ),
        filler=r"\b(?:mi dispiace|purtroppo|spiacente|la prego|consulti|consulta|contatti|grazie|posso aiutar|le consiglio|ti consiglio|scusa)",
        common="il gli è un una per con della sono nel nella lo sì si anche più questo questa dal so nessuna nessuno non niente nulla anni fu circa nota noto se risposta domanda",
    ),
    "pt": Table(
        source=(
            r"(?:passagens|passagem|trechos?|excertos?|documentos?|textos?|fontes?|contextos?|artigos?|informa[cç](?:ões|ão)|materia(?:l|is)|resultados"
            r"|documentação|base de conhecimento|páginas?|manual)(?: (?:fornecid[oa]s?|dad[oa]s?|disponíve(?:l|is)|apresentad[oa]s?|recuperad[oa]s?"
            r"|acima|que tenho))?"
        ),
        speaker=(
            r"\b(?:eu )?não (?:o |lhe |te |me )?(?:sei|conheço|posso|consigo|consegui|pude|encontrei|encontro|disponho|tenho|poderia|estou certo|estou certa"
            r"|saberia|vejo|fui capaz|sou capaz|temos|podemos|conseguimos|encontramos|dispomos|achei|me lembro|possuo)\b(?! (?:dúvidas?|nada contra))"
            r"|\bdesconheço\b|\bnão faço (?:a menor )?ideia|\bnenhuma ideia\b|\bsem ideia\b|\bnão me é possível|\bignoro\b"
        ),
        silent=(
            r"\b<S> (?:[^.,]{0,60} )?(?:não|nem) \w+|\bnenhum\w* (?:d[oa]s |dest[ea]s )?<S>|\b<S> (?:\w+ )?(?:são|é|fica|ficam) omiss"
            r"|\b(?:não|nada|nenhum\w*)\b[^.]{0,100}\b(?:n[oa]s?|em|pel[oa]s?|d[oa]s?|com base)\b[^.]{0,25}\b<S>"
            r"|\b(?:n[oa]s?|com base n[oa]s?|a partir d[oa]s?)\b[^.]{0,25}\b<S>[^.]{0,60}\b(?:não|nada)\b"
        ),
        asked=(
            r"\b(?:não (?:há|existem?|foram? encontrad[oa]s?|se encontra|estão disponíveis)\b[^.]{0,40}|^)(?:nenhum[a]? |suficientes? )?"
            r"(?:informaç(?:ão|ões)|dados|resposta|menção|detalhes?|indicaç(?:ão|ões))\b"
            r"|^(?:isso|isto|essa informação|esta informação|esse dado|este dado|a resposta)\b[^.]{0,30}\bnão\b"
            r"|^não (?:consta|há como|dá para (?:saber|dizer|responder))|^não (?:é|está|foi|são) (?:\w+ )?(?:mencionad|especificad|indicad|dit[oa]|informad|possível (?:responder|dizer|saber|"
            r"determinar))"
            r"|\b(?:a|sua|essa|esta|tua) pergunta\b[^.]{0,60}\bnão\b|\b(?:é impossível|não é possível) (?:responder|dizer|determinar|saber)\b(?!.*\bsem (?!mais))"
            r"|\bnão (?:é|está|foi|são) (?:\w+ )?(?:mencionad|especificad|indicad|informad)[oa]s?\W*$|^desconhecid[oa]"
        ),
        contrast=r"(?:mas|porém|no entanto|contudo|entretanto|embora|todavia)",
        before=(
            r"\b(?:disse|disseram|declarou|respondeu|afirmou|explicou|admitiu|escreveu|confessou|reconheceu)\b|\bse\b(?! encontr)|\bquando\b|\bcaso\b"
        ),
        filler=r"\b(?:desculp|infelizmente|lamento|por favor|consulte|contate|contacte|obrigad|posso ajudar|recomendo|sugiro)",
        common="um uma não por com para dos das são na mais sim isso foi eu sei pelo nenhuma nenhum há consta sem informação anos sobre é ao se resposta pergunta desconheço",
    ),
    "nl": Table(
        source=(
            r"(?:(?:verstrekte|gegeven|beschikbare|aangeleverde|opgehaalde|bijgevoegde|gevonden|bovenstaande) )?(?:passages?|fragment(?:en)?|documenten"
            r"|document|teksten|tekst|bronnen|bron|context|artikelen|artikel|informatie|materiaal|zoekresultaten|gegevens|kennisbank|handleiding|stukken)"
        ),
        speaker=(
            r"\bik (?:\w+ ){0,3}?(?:weet|ken|kan|kon|heb|vind|vond|beschik|zie|ben)\b[^.]{0,100}\b(?:niet|geen|niets|onvoldoende)\b"
            r"|\b(?:weet|kan|kon|heb|vind|beschik) ik\b[^.]{0,100}\b(?:niet|geen|niets|onvoldoende)\b|\bgeen (?:flauw )?idee\b|\bweet ik niet\b"
            r"|\bwij? (?:\w+ ){0,2}?(?:hebben|kunnen|konden|beschikken)\b[^.]{0,60}\b(?:niet|geen)\b|\bis mij (?:niet bekend|onbekend)|\bmij ontbreekt"
        ),
        silent=(
            r"\b<S> (?:[^.,]{0,60} )?(?:bevat\w*|noem\w*|vermeld\w*|ge(?:ven|eft)|zeg\w*|beschrij\w*|behandel\w*|beantwoord\w*|ga\w*|bied\w*|maak\w*|maken|leg\w*"
            r"|vertel\w*|spre\w+|sta\w*|meld\w*)\b[^.]{0,100}\b(?:niet|niets|geen|nergens)\b|\b<S> (?:\w+ )?zwijg|\b(?:noemen|zeggen|vermelden|geven|bevatten|maken) (?:\w+ ){0,3}?<S>[^.]{0,60}\b(?:niet|niets|geen)\b"
            r"|\b(?:in|uit|op basis van|volgens|met|door) (?:\w+ ){0,3}?<S>\b[^.]{0,120}\b(?:niet|niets|geen|nergens)\b"
            r"|\b(?:niet|niets|geen|nergens)\b[^.]{0,100}\b(?:in|uit|op basis van|door|met) (?:\w+ ){0,3}?<S>|\bgeen (?:enkele? )?(?:van de )?(?:\w+ )?<S>\b"
        ),
        asked=(
            r"(?:^|\b(?:er is|er zijn|is er|zijn er|er staat|er wordt)\b[^.]{0,30})(?:helaas )?(?:geen|onvoldoende|niet genoeg) (?:\w+ ){0,2}?(?:informatie|gegevens"
            r"|antwoord|vermelding|details|aanwijzing\w*)\b"
            r"|^(?:dat|dit|daarover|hierover|daar)\b[^.]{0,50}\b(?:niet|niets)\b[^.]{0,30}\b(?:vermeld|genoemd|bekend|beschreven|gezegd|beantwoorden|zeggen|"
            r"te vinden|duidelijk|aangegeven|opgenomen|besproken)\b|^(?:dat|dit|daarover|hierover) staat\b[^.]{0,30}\b(?:niet|niets|nergens)"
            r"|\b(?:deze|uw|je|de) vraag\b[^.]{0,60}\b(?:niet|geen)\b|\b(?:wordt|worden|is|zijn) (?:hier |helaas |daarin |echter )*niet (?:nader )?(?:vermeld|genoemd|"
            r"gespecificeerd|beschreven|aangegeven|besproken)\W*$|^onbekend\W*$"
        ),
        contrast=r"(?:maar|echter|wel|daarentegen|toch)",
        before=r"\b(?:zei|zeiden|verklaarde|antwoordde|schreef|gaf toe|beweerde|vertelde)\b|\b(?:als|indien|wanneer|mocht)\b",
        filler=r"\b(?:helaas|sorry|excuses|het spijt|alstublieft|neem contact|raadpleeg|graag|helpen|bedankt|kijk op)\b",
        common="het een niet ik van dat te zijn voor er maar ook geen wordt naar nee bij aan weet niets daarover bekend uur jaar werd ja vraag antwoord",
    ),
    "ru": Table(
        source=(
            r"(?:(?:предоставленн|данн|доступн|имеющ|приведенн|найденн|эт)\w* )?(?:отрыв\w+|фрагмент\w*|документ\w*|текст\w*|источник\w*|контекст\w*|стать\w+|информаци\w+"
            r"|материал\w*|результат\w*|данны[хме]\w*|баз\w+ знаний|страниц\w*|руководств\w*|пассаж\w*)"
        ),
        speaker=(
            r"\b(?:я|мы) (?:\w+ ){0,3}?(?:не|ничего не) (?:\w+ )?(?:зна\w+|мог\w*|смог\w*|нашел|нашла|нашли|наш\w+|наход\w+|располага\w+|име\w+|виж\w+|увер\w+|удалось|облада\w+|в состоянии|помн\w+)"
            r"|^(?:к сожалению,? |извините,? |простите,? )*не (?:зна\w+|мог\w*|смог\w*|нашел|нашла|наш\w+|располага\w+|име\w+|увер\w+)|\bу (?:меня|нас) (?:\w+ ){0,3}?нет\b|\bнет у меня\b"
            r"|\bмне (?:\w+ ){0,4}?(?:неизвестн|не (?:известн|удалось|хватает))|\bпонятия не имею|\bмоих? (?:знани\w+|данн\w+)\b[^.]{0,40}\bне"
        ),
        silent=(
            r"\b<S>(?: [^.,]{0,50})? (?:не|ничего не|нигде не) \w+|\b<S> (?:\w+ )?(?:умалчива|молч)\w+|\b(?:в|во|из|по|на основе|на основании|среди|согласно) (?:\w+ ){0,3}?<S>[^.]{0,100}\b"
            r"(?:не|нет|ничего|отсутству\w+)\b|\b(?:не|нет|ничего|отсутству\w+)\b[^.]{0,100}\b(?:в|во|из|по|на основе|на основании) (?:\w+ ){0,3}?<S>|\bни (?:в )?одн\w+ (?:из )?(?:\w+ )?<S>"
        ),
        asked=(
            r"(?:^|\b(?:об этом|по этому \w+|на этот счет|здесь|тут)\b[^.]{0,30})(?:нет|недостаточно|не хватает|отсутству\w+) (?:\w+ ){0,2}?(?:информации|данных|сведений|ответа|упоминани\w+|подробност\w+)"
            r"|\b(?:информаци\w+|данны\w+|сведени\w+|ответ\w*|упоминани\w+)\b[^.]{0,60}\b(?:нет|отсутству\w+|не (?:найден|приведен|указан|представлен|предоставлен|содержит|обнаружен)\w*)"
            r"|^(?:это|этого|об этом|про это)\b[^.]{0,40}\bне(?:т| (?:\w+ )?(?:сказан|указан|упомин|упомянут|говорит|известно|уточн|сообща|описан)\w*)"
            r"|\bвопрос\w*\b[^.]{0,60}\b(?:невозможно|нельзя|не (?:могу|удалось|удается|представляется))|\b(?:невозможно|нельзя|не представляется возможным) (?:\w+ )?(?:ответить|сказать|установить|"
            r"определить)\b(?!.*\bбез (?!дополнит))|\bне (?:указан|упомянут|уточня|сообща)\w*\W*$|^неизвестно\W*$"
        ),
        contrast=r"(?:но|однако|зато|тем не менее)",
        before=r"\b(?:он|она|они|\w+) (?:сказал|ответил|заявил|написал|признал|пояснил|сообщил|утверждал)\w*|\b(?:если|когда|ли)\b",
        filler=r"\b(?:извините|к сожалению|простите|пожалуйста|обратитесь|рекомендую|спасибо|помочь|уточните|проверьте)",
        sure=r"[ыэё]|\b(?:что|как|это|если|нет|был\w*|для|или|нужно|никто|они|она|только|из|его|зимой)\b",
    ),
    "ar": Table(
        source=(
            r"(?:ال)?(?:نص|نصوص|مقطع|مقاطع|مقتطف|مقتطفات|وثيقة|وثائق|مستند|مستندات|مصدر|مصادر|سياق|مقال|مقالات|مقالة|معلومات|مواد|نتائج|فقرة|فقرات|صفحات|دليل|بيانات)"
            r"(?: (?:ال)?(?:مقدمة|متاحة|متوفرة|معطاة|مرفقة|مسترجعة|مذكورة|مقدم|متاح|المعطى|معطى))?"
        ),
        speaker=(
            r"(?:^|\s|و|،)لا (?:أعرف|أعلم|أدري|أستطيع|يمكنني|أملك|أجد|أمتلك|نعرف|نملك|نستطيع|يمكننا|تتوفر لدي|توجد لدي|يوجد لدي|أتذكر)|(?:^|\s)(?:لم|لن) (?:أجد|أتمكن|أستطع|أعثر|نجد|نعثر|أستطيع)"
            r"|ليس(?:ت)? لدي|لست (?:متأكد|قادر|على علم|أعرف)|لا (?:علم|فكرة) ل[ديي]+|ليس عندي|لا أعلم|غير قادر على|ما عندي"
        ),
        silent=(
            r"<S>[^.]{0,40}\s(?:لا|لم) (?:ت|ي)\w+|(?:لا|لم|ليس\w*|غير)\s[^.]{0,80}\s(?:في|من|ضمن|حسب|استنادا إلى|بناء على|عن طريق) (?:هذه |هذا |تلك |جميع )?<S>"
            r"|(?:في|من|حسب|وفق\w*|بناء على|استنادا إلى) (?:هذه |هذا )?<S>[^.]{0,60}\s(?:لا|لم|ليس)|(?:لا|لم) (?:ي|ت)\w+ (?:أي من )?(?:هذه |هذا )?ال<S>"
        ),
        asked=(
            r"لا (?:توجد|يوجد|تتوفر|يتوفر)\s(?:\w+ ){0,2}?(?:معلومات|إجابة|بيانات|تفاصيل|ذكر|إشارة|جواب)|لا (?:معلومات|ذكر|إجابة)|(?:لا يمكن|يتعذر|من المستحيل|لا يمكنني) (?:الإجابة|تحديد|معرفة|القول|الجواب)(?!.*(?:دون|بدون|إلا ب))"
            r"|^(?:هذا|هذه|ذلك|هذه المعلومة)[^.]{0,30}\s(?:غير (?:مذكور|متوفر|متاح|محدد|موجود|وارد)|لم (?:يذكر|ترد|تذكر|يرد|يحدد))|(?:غير مذكور|لم يذكر|غير محدد|لم يحدد|غير متوفر)\w* ?(?:ذلك|هذا)?\W*$"
            r"|المعلومات[^.]{0,30}(?:غير كافية|غير متوفرة|لا تكفي|غير متاحة)"
        ),
        contrast=r"(?:لكن|ولكن|لكنه|لكنها|غير أن|إلا أن|ومع ذلك|بيد أن)",
        before=r"(?:قال|قالت|أجاب|صرح|ذكر|أعلن|اعترف|أوضح|كتب)\w* (?:\w+ ){0,3}?(?:إن|أن|إنه|إنها|أنه|أنها|بأن)|(?:^|\s)(?:إذا|إن لم|لو|عندما)\s",
        filler=r"(?:عذرا|آسف|للأسف|يرجى|المعذرة|يسعدني|مساعدتك|راجع|تواصل|شكرا|أنصح)",
        sure=r"\bال|ة|[أإ]|\b(?:لا|لم|ليس|في|من)\b",
    ),
    "hi": Table(
        source=(
            r"(?:दस्तावेज़?\w*|दस्तावेज़ों|पाठ|पाठों|अंश|अंशों|संदर्भ|स्रोत|स्रोतों|जानकारी|सामग्री|लेख|लेखों|अनुच्छेद|अनुच्छेदों|परिच्छेद|परिच्छेदों|परिणामों|पृष्ठों|टेक्स्ट|पैसेज|डेटा)"
        ),
        speaker=(
            r"मुझे [^।]{0,60}(?:नहीं (?:पता|मालूम|मिल|मिला|मिली|पता)|पता नहीं|मालूम नहीं|जानकारी नहीं|नहीं पता)|(?:मैं|हम) [^।]{0,100}(?:नहीं (?:जानत|बता|दे (?:सक|पा)|कह सक|कर (?:सक|पा)|ढूँढ|ढूंढ|खोज|पा )|असमर्थ|सक्षम नहीं)"
            r"|(?:मेरे|हमारे) पास [^।]{0,80}नहीं|पता नहीं\W*$|^(?:माफ़? ?कीजिए,? |क्षमा करें,? )*(?:नहीं पता|पता नहीं|मालूम नहीं)|मेरी जानकारी में नहीं"
        ),
        silent=(
            r"<S>[^।]{0,100}(?:नहीं|नही|कुछ नहीं|मौन|चुप)|(?:नहीं|कोई)[^।]{0,60}<S> में|<S> के आधार पर[^।]{0,80}(?:नहीं|संभव नहीं|असंभव)|किसी (?:भी )?<S>[^।]{0,60}नहीं"
        ),
        asked=(
            r"(?:इस|उस|इसके|इसका|इसकी|यह|आपके|आपका)[^।]{0,60}(?:जानकारी|उत्तर|जवाब|उल्लेख|विवरण|प्रश्न|सवाल)[^।]{0,60}(?:नहीं|उपलब्ध नहीं|संभव नहीं|असंभव)|^(?:कोई|पर्याप्त) (?:\S+ )?(?:जानकारी|उत्तर|जवाब|विवरण|उल्लेख)[^।]{0,30}नहीं"
            r"|(?:जानकारी|विवरण|उत्तर) (?:उपलब्ध नहीं|नहीं (?:दी|दिया|मिल)|पर्याप्त नहीं|अपर्याप्त)|(?:उल्लेख|ज़िक्र|जिक्र|वर्णन) (?:कहीं )?नहीं (?:है|किया|मिलता|हुआ)|(?:कहा|बताना|बताया|निर्धारित करना|तय करना) (?:नहीं जा सकता|संभव नहीं|असंभव)(?!.*बिना)|नहीं (?:बताई|बताया|दी|दिया) (?:गई|गया) है|^अज्ञात"
        ),
        contrast=r"(?:लेकिन|परंतु|परन्तु|मगर|हालाँकि|हालांकि|किंतु|किन्तु)",
        before=r"(?:कहा|बताया|लिखा|जवाब दिया|स्वीकार किया|माना) कि|(?:अगर|यदि|जब)\s",
        filler=r"(?:क्षमा|माफ़|माफ|खेद|कृपया|धन्यवाद|मदद|संपर्क करें|सहायता)",
        sure=r"(?:^|\s)(?:नहीं|है|हैं|था|थे|थी|में|ने|हुआ|हुई)(?=\s|$|[।,])",
    ),
    "zh": Table(
        source=(
            r"(?:文中|文本|文档|文件|文章|段落|上下文|资料|材料|来源|信息|片段|原文|内容|知识库|检索结果|搜索结果|文献|手册|数据|文檔|文件|資料|段落|內容|資訊)(?:中|里|裡|内|內)?"
        ),
        speaker=(
            r"我(?:们|們)?(?:也|并|並|真的|暂时|暫時|目前|恐怕|实在|實在|还|還|确实|對此|对此)*(?:不知道|不清楚|不了解|不确定|不確定|没有|沒有|无法|無法|没法|沒法|找不到|没找到|沒找到|未能|查不到|不能|不太清楚|不晓得|没看到|没能)"
            r"|^(?:很?抱歉|对不起|對不起|不好意思)?[，,]?(?:我)?(?:不知道|不清楚|不确定|无法回答|無法回答|没有找到|未找到|不太清楚|不了解|找不到)|超出(?:了)?我的|无可奉告$"
        ),
        silent=(
            r"<S>[^。，]{0,25}(?:没有|沒有|并未|並未|未|没|不|无|無)(?:能|曾|有)?(?:被|明确|明確|具体|具體|详细|任何|直接|足够|相关)*(?:提到|提及|说明|說明|提供|包含|涉及|给出|給出|指出|介绍|介紹|回答|记载|記載|描述|讨论|討論|写|寫|列出|交代|解释|足以|谈到|涵盖|显示|透露|关于|有关|相关)"
            r"|(?:从|從|根据|根據|在|就|基于)[^。]{0,15}<S>[^。]{0,30}(?:无法|無法|不能|没有|沒有|看不出|找不到|不足以|得不出|未|难以)|<S>[^。，]{0,6}(?:只字未提|没有[这该此]\w{0,2}(?:信息|内容|资料|答案)|沒有這)|(?:没有|無|无)(?:任何)?一?[份篇段个条]<S>[^。]{0,12}(?:解释|说明|提到|提及|回答|涉及)|<S>[^。，]{0,8}只字未提|<S>(?:不足|不够|有限，?无法|与[^。]{0,15}无关)|(?:没有|沒有|无|任何一[篇段份])[^。]{0,12}<S>[^。]{0,15}(?:提到|提及|说明|回答|涉及)"
        ),
        asked=(
            r"(?:没有|沒有|暂无|暫無|缺乏|未找到|找不到|没找到)(?:任何|足够的?|足夠的?|相关的?|相關的?|更多|具体的?|有关[^。]{0,20}的)*(?:信息|資訊|资料|資料|记录|答案|内容|数据|说明|依据|細節|细节|消息)(?!可以|给)|(?:这个|這個|该|該|此|您的|你的)?问题(?:目前)?(?:无法|無法|不能)(?:被)?(?:回答|确定)|(?:无法|無法|不能|难以)(?:回答|确定|確定|判断|判斷|得知|作答|给出答案|确认|说明)"
            r"(?!.*(?:除非|只有|必须|需要先))|(?:这一点|这点|对此|此事|這一點|这个信息)[^。]{0,12}(?:没有|未|沒有|不)(?:提及|提到|说明|写|明|清楚|详)|^(?:未知|不详|不明)$|^(?:并|並)?(?:未|没有|沒有)(?:提及|提到|说明|指明|注明)[^，]{0,20}$"
        ),
        contrast=r"(?:但是|但|不过|不過|然而|可是)",
        before=r"(?:他|她|他们|警方|作者|专家|学者|史学家|[^\s，。我]{2,6})(?:说|表示|回答|承认|称|坦言|透露|写道)|(?:如果|若|假如|当|一旦)|(?:不|没有)[^，。]{1,15}就",
        filler=r"(?:抱歉|对不起|對不起|遗憾|不好意思|请|請|帮助|建议|谢谢|感谢|咨询)",
    ),
    "ja": Table(
        source=(
            r"(?:(?:提供|提示|検索|与え|取得)\w{0,6})?(?:文書|文章|資料|テキスト|文脈|ドキュメント|情報源|出典|記事|本文|パッセージ|情報|検索結果|抜粋|コンテキスト|データ|マニュアル|文中|内容|ページ|段落|知識ベース)"
        ),
        speaker=(
            r"(?:私|わたし|当方|こちら|手元)(?:に|で|の|は|には|では)[^。]{0,40}(?:わかりません|分かりません|ありません|知りません|できません|存じません|分からない|わからない|ない)"
            r"|(?:^|、|が、|は|も|か|て|で|ため)(?:よく|正確には|はっきり|詳しくは|ちょっと)?(?:わかりません|分かりません|知りません|存じません|わからない|分からない|分かりかねます|わかりかねます|お答えできません|答えられません|お答えすることができません|お答えしかねます|回答できません|知らない)(?:。|$|で|\W)"
            r"|見つけ(?:られません|ることができません|られなかった)|見つかりません|見当たりません|確認できません|把握していません|判断できません|申し上げられません|お答えでき(?:ません|かね)|見当がつきません"
        ),
        silent=(
            r"<S>(?:に|で|から|は|も|が|の|内|中|、)[^。を]{0,40}(?:[^。]{0,20})(?:ありません|ません(?:でした)?|ていない|られない|書かれていない|載っていない|ない(?:ため|ので|ようです|。|$)|なし|不足|不十分)(?!。?か)"
        ),
        asked=(
            r"(?:情報|記載|言及|説明|記述|データ|回答|答え|資料|記録)(?:が|は|も|を)(?:一切|特に|十分に|何も|まったく|提供され)*(?:ありません|ない|見つかりません|見当たりません|不足|含まれていません|ございません|得られません|なし)(?!か)|^(?:不明|該当なし|記載なし|情報なし)"
            r"|(?:質問|ご質問|お尋ね|問い)[^。]{0,30}(?:答え(?:られません|ることができません)|回答でき(?:ません|ない)|できません)|(?:言及|記載|説明|明記|触れ)(?:さ|ら)?れて(?:い)?(?:ません|いません|おりません|ない)|触れられていません|特定できません|不明です"
        ),
        contrast=r"(?:しかし|ただし|ですが|けれども|だが|ものの)",
        before=r"(?:彼|彼女|氏|警察|大臣|社長|作者|学者)[^。]{0,25}(?:は|も|が)|(?:もし|場合|なら|と(?:答え|述べ|語|言|話|書))",
        filler=r"(?:申し訳|すみません|恐れ入り|残念|ください|お手伝い|ご確認|お問い合わせ|お勧め)",
    ),
    "ko": Table(
        source=(
            r"(?:(?:제공된|주어진|검색된|제시된|위의|이) )?(?:문서|문서들|지문|본문|텍스트|문맥|자료|출처|기사|정보|검색 결과|발췌문|구절|문단|컨텍스트|데이터|내용|매뉴얼|글|지식 베이스|페이지)"
        ),
        speaker=(
            r"(?:저는|제가|저도|저로서는|나는|우리는|저희는|저희가|저희로서는|제게는|저에게는|저희에게는)[^.]{0,80}(?:모르|모릅|알지 못|알 수 없|없습니다|없어요|못했|못합|확실하지 않|어렵습니다|찾을 수 없|수 없)|^(?:죄송(?:합니다|하지만),? ?(?:만,? ?)?|죄송합니다만,? ?|아쉽게도,? ?|글쎄요,? ?)*(?:잘 )?(?:모르겠|모릅니다|몰라|알 수 없)"
            r"|(?:답변|대답|답|말씀)(?:을|해)?(?: )?(?:드릴|할|드리기|하기)[^.]{0,8}(?:수 없|어렵)|찾을 수 없(?:습니다|었습니다|어요)|찾지 못했습니다|지(?:는|도)? (?:잘 )?(?:모르겠|모릅니다|알 수 없)|잘 모르겠|확인할 수 없(?:습니다|었습니다)|확인되지 않습니다|알지 못합니다"
        ),
        silent=(
            r"<S>들?(?:에서?는?|에도|만으로는|로는|도|은|는|이|가|에|을|를| 어디에도| 중| 안에| 내에)[^.]{0,80}(?:없|않|못|부족|어렵)"
        ),
        asked=(
            r"(?:정보|내용|언급|설명|답|답변|자료|기록|데이터|언급된 바)(?:가|이|는|은|도)? ?(?:전혀 |충분히 |따로 |제공되지 |나와 있지 |포함되어 있지 |충분하지 )*(?:없습니다|없어요|않습니다|부족합니다|없음|없다)|(?:언급|명시|설명|기재|기술|나와|다루어|제공)(?:되어|돼|어)?(?: )?(?:있지|되지|지) (?:않|못)"
            r"|(?:질문|물음|문의)[^.]{0,30}(?:수 없|어렵습니다)|^(?:알 수 없음|불명|정보 없음|해당 없음)|나와 있지 않|나오지 않습니다|알 수 없습니다"
        ),
        contrast=r"(?:하지만|그러나|다만|그렇지만)",
        before=r"(?:그는|그녀는|그들은|경찰은|학자들은|장관은|대변인은|역사가들은)|(?:만약|만일|경우)|(?:다고|라고) (?:말|답|밝|대답|전|진술|썼|인정)",
        filler=r"(?:죄송|유감|아쉽|감사|부탁|도와|문의하|참고하|권장|확인하시|확인해 주)",
    ),
}


def read(text: str) -> tuple[IdkVerdict | None, str] | None:
    """Return (verdict, reason) of a response in another language than English; None where it is to be read as English.

    The verdict is None, with the reason, where no table covers the language, or a short text does not tell it.
    """
    code = language_of(text)
    if code == "en":
        return None
    if code in _CLOSE and len(text) <= _SHORT:
        code = None
    if code is not None:
        return (
            classify(text, code) if code in TABLES else (None, f"not read: its language is {code}, which has no table")
        )
    codes = _possible(text)
    for one in codes:
        verdict, reason = classify(text, one)
        if verdict is not IdkVerdict.NO:
            return verdict, reason
    if not codes:
        return None
    if len(codes) == 1 and re.search(TABLES[codes[0]].sure, text.lower()):
        return classify(text, codes[0])
    return None, "not read: it is no English, and too short to tell its language"


def classify(text: str, code: str) -> tuple[IdkVerdict, str]:
    """Return (verdict, reason) of a response in the language of a table; the reason names the language."""
    patterns = _patterns(code)
    refusals, n_words = [], 0
    for clause in _clauses(text, code):
        if found := patterns.refusal_in(clause):
            refusals.append(found)
        elif not patterns.filler.search(clause):
            n_words += len(clause) // _LETTERS_A_WORD if code in _UNSPACED else len(clause.split())
    if not refusals:
        return IdkVerdict.NO, f"no phrase that says that information is missing ({code})"
    verdict = IdkVerdict.PARTIAL if n_words >= ANSWER_WORDS else IdkVerdict.YES
    return verdict, f"({code}) {refusals[0]}"


@dataclass(frozen=True, slots=True)
class _Patterns:
    refusal: re.Pattern[str]
    contrast: re.Pattern[str]
    before: re.Pattern[str]
    filler: re.Pattern[str]

    def refusal_in(self, clause: str) -> str | None:
        """Return the phrase of a clause that refuses, and that nobody else says and no condition opens."""
        found = self.refusal.search(clause)
        if found is None or self.before.search(clause[: found.start()]):
            return None
        return found[0].strip()


@cache
def _patterns(code: str) -> _Patterns:
    table = TABLES[code]
    families = "|".join((table.speaker, table.silent, table.asked)).replace("<S>", table.source)
    gap = r"\s*" if code in _UNSPACED else r"[\s,]+"
    contrast = rf"{gap}(?={table.contrast}{'' if code in _UNSPACED else chr(92) + 'b'})"
    return _Patterns(*(re.compile(_folded(one, code)) for one in (families, contrast, table.before, table.filler)))


def _clauses(text: str, code: str) -> list[str]:
    """Return the clauses of a response in lower case; letters in quotations as x."""
    plain = _folded(text.lower(), code).replace("\u2019", "'")
    plain = _QUOTES.sub(lambda quote: re.sub(r"\w", "x", quote[0]), plain)
    sentences = (sentence.strip(" *-#\t") for sentence in _SENTENCE_END.split(plain))
    return [clause for sentence in sentences for clause in _patterns(code).contrast.split(sentence) if clause.strip()]


def _folded(text: str, code: str) -> str:
    if code not in _FOLDED:
        return unicodedata.normalize("NFC", text)
    marks_apart = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in marks_apart if unicodedata.category(letter) != "Mn")


def _possible(text: str) -> list[str]:
    """Return the languages of tables that a short text may be in; [] where nothing says that it is not English."""
    for code, script in _SCRIPTS:
        if script.search(text):
            return [code]
    words = [word for word in _WORD.findall(text) if word.islower() or text.lstrip(_OPENING_MARKS).startswith(word)]
    counts = {code: sum(word.lower() in known for word in words) for code, known in _common_words().items()}
    most = max(counts.values())
    return [code for code, count in counts.items() if count == most > sum(word.lower() in _ENGLISH for word in words)]


@cache
def _common_words() -> dict[str, frozenset[str]]:
    return {code: frozenset(table.common.split()) for code, table in TABLES.items() if table.common}
