"""Names that the YAMLs of this folder use. All are part of the package `ragtasks`."""

try:
    from ragtasks.harness.agentic import AgenticTask
    from ragtasks.harness.conversation_task import ConversationTask
    from ragtasks.harness.group_metrics import mtrag, mtrag_agentic
except ModuleNotFoundError as error:
    if error.name != "ragtasks":
        raise
    message = "The MTRAG tasks require ragtasks. Next step: pip install ragtasks"
    raise ModuleNotFoundError(message, name=error.name) from error

__all__ = ["AgenticTask", "ConversationTask", "mtrag", "mtrag_agentic"]
