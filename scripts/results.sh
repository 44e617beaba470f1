#!/usr/bin/env bash
# Recreate the tables of docs/background/results.md from real files: retrievers and baselines only, without a model hub
# and judges.
# usage: results.sh CHECKOUT PIECES [FOLDER]
#   CHECKOUT: mt-rag-benchmark with its corpora; PIECES: multidoc2dial/, multihop_rag/, trec_rag/ as published;
#   FOLDER: folder for all files; default: results/real. Takes an hour on a busy machine, half of it for the encoder.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$1 pieces=$2 out=${3:-results/real}
export PATH="$PWD/${VENV:-.venv}/bin:$PATH" HF_HUB_OFFLINE=1
forms="last_turn rewrite all_questions"
fused="last_turn/rewrite last_turn/rewrite/all_questions"

echo "== BM25 over the pooled corpora"
export RAGTASKS_RUNS="$out/store"
for retriever in bm25 bm25-standard bm25s:k1=0.9,b=0.4; do
  for form in $forms; do ragtasks retrieve --data "$checkout" --retriever "$retriever" --queries "$form"; done
done
for form in $fused; do ragtasks retrieve --data "$checkout" --retriever bm25 --queries "$form"; done
runs=$(for name in bm25 bm25-standard bm25s-k1-0.9-b-0.4; do for form in $forms; do echo "$name.$form"; done; done)
runs="$runs $(for form in $fused; do echo "bm25.${form//\//-}"; done)"
ragtasks evaluate-run $runs official --data "$checkout" --measures R@5,nDCG@5,R@20,R@100
ragtasks evaluate-run bm25.rewrite official --data "$checkout"

echo "== BM25, MiniLM and their fusion over small pools"
python perf/small_pool.py "$checkout" "$out/pool"
corpora=$(for domain in clapnq fiqa govt cloud; do echo "--corpus $domain=$out/pool/$domain.jsonl"; done)
for form in $forms; do
  for retriever in bm25 dense:minilm 'hybrid(bm25,dense:minilm)'; do
    name=small-$(echo "$retriever" | tr -cd a-z0-9).$form
    ragtasks retrieve --data "$checkout" --retriever "$retriever" --queries "$form" $corpora --name "$name"
    small="${small:-} $name"
  done
done
ragtasks evaluate-run $small --data "$checkout" --measures R@5,nDCG@5,R@20

echo "== Baselines"
python perf/real_pieces.py "$pieces" "$out/pieces"
ragtasks retrieve --benchmark multidoc2dial --data "$out/pieces/multidoc2dial" --queries contextualized \
  --retriever bm25 --depth 20 --name mdd.bm25
ragtasks retrieve --benchmark multihop_rag --data "$out/pieces/multihop_rag" --retriever bm25 --depth 20 --name mh.bm25
ragtasks evaluate-run mdd.bm25 --benchmark multidoc2dial --data "$out/pieces/multidoc2dial"
ragtasks evaluate-run mh.bm25 --benchmark multihop_rag --data "$out/pieces/multihop_rag"
evaluate() { # TASKS DATA [RUN]
  for model in oracle refuse extractive; do
    ragtasks run --model "ragtasks-$model" --tasks "$1" --log_samples --output_path "$out/evaluations/$1" \
      --metadata "{\"data\": \"$2\", \"encoder\": \"none\"${3:+, \"run\": \"$3\"}}" > /dev/null
  done
  ragtasks report "$out/evaluations/$1" --full
}
evaluate mtrag "$checkout"
evaluate mtrag_un_reference "$checkout"
evaluate multidoc2dial "$out/pieces/multidoc2dial" mdd.bm25
evaluate multihop_rag "$out/pieces/multihop_rag" mh.bm25
evaluate trec_rag24_researchy "$out/pieces/trec_rag24"

echo "== Labels of NIST"
ragtasks score "$pieces/trec_rag/nist/nugget_assignment.20241108.jl" \
  "$pieces/trec_rag/nist/final.citation_judgments_with_prediction.20241025.jsonl"
for answers in "$pieces"/trec_rag/answers/*.jsonl; do ragtasks check "$answers" --data "$pieces/trec_rag"; done
