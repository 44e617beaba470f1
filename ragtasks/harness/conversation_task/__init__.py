"""The harness task of a conversation: what it asks, what came back, what that scored."""

from ragtasks.harness.conversation_task._answers import writable
from ragtasks.harness.conversation_task._chat import REFUSAL
from ragtasks.harness.conversation_task._conversation_task import ConversationTask
from ragtasks.harness.conversation_task._dataset import task_dataset
from ragtasks.harness.conversation_task._room import Fitting

__all__ = ["REFUSAL", "ConversationTask", "Fitting", "task_dataset", "writable"]
