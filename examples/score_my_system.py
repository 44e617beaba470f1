"""Scores a system on twenty questions of the sample. Replace `my_system` by your own."""

import ragtasks

benchmark = ragtasks.load_benchmark("mtrag", data="sample")
passages = benchmark.passages("full_rag")


def my_system(question, shown):
    return shown[0].text if shown else f"I do not know the answer to: {question}"


tasks = [task for task in benchmark.tasks if task.answerability.value != "CONVERSATIONAL"][:20]
answers = {task.task_id: my_system(task.question, passages[task.task_id]) for task in tasks}
print(ragtasks.score(benchmark, answers, setting="full_rag", name="my system"))
