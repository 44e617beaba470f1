"""A reply that is an error, a call or a program's output is no answer; an answer that explains one is."""

# ruff: noqa: E501, RUF001

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ragtasks.metrics import answer_text, is_error_text, is_no_answer, is_tool_call, is_wrapped

ANSWERS_ABOUT_ERRORS = [
    "400 Bad Request. The HTTP 400 Bad Request response status code indicates that the server cannot process the request.",
    "Error 1045 means that access was denied: check the user name and the password.",
    "Error 1045: Access denied for the user. Check that the password is right and that the host may connect.",
    "Traceback (most recent call last) is printed when a Python program ends with an exception that nobody caught.",
    "HTTP 404: the page was not found, usually because its address has changed.",
    "404 Not Found: the requested resource could not be found but may be available in the future.",
    "429 Too Many Requests: you have sent more than 100 calls in one minute, so wait until the limit resets.",
    "503 Service Unavailable is returned while the instance restarts.",
    "Exception: Sundays.",
    "Human error: 95%.",
    "Code 404.",
    "Type error: 5%",
    "Error code 3: the disk is full. Delete old files and start the job again.",
    "Error: 'Access denied' appears when your API key lacks the role Writer.",
    "ConnectionError: raised when the host cannot be reached.",
    "TimeoutError: this exception is raised when the query takes longer than 30 seconds.",
    "KeyError means that the dictionary has no such key.",
    "FileNotFoundError: the file does not exist in the working directory.",
    "Internal Server Error (500): something in the application failed. Look at its log.",
    "HTTP 401 Unauthorized occurs if your token has expired. Log in again with ibmcloud login.",
    "Status code 202. The request was accepted and runs in the background.",
    "Status: 409 Conflict. Another service with this name exists already; choose another name.",
    "500 errors come from the application, 502 and 504 errors from the load balancer in front of it.",
    "Connection refused means that nothing listens on the port.",
    "The request timed out because the worker pool was empty; add workers or raise the limit.",
    "Error: CRWAP0003X. This error occurs when the service is bound twice. Unbind it and try again.",
    '{"error": "invalid_grant"} is what the server returns when the refresh token has expired.',
    "Rate limit exceeded: your plan allows 100 requests a minute. Upgrade to the Standard plan for more.",
    "<html> is the root element of a page, and <!DOCTYPE html> stands before it.",
    "<!DOCTYPE html> tells the browser to use standards mode.",
    "ERROR 2002 (HY000): Can't connect to local MySQL server through socket. Start the server first, then connect again.",
    "An error occurred during migration because the schema was locked.",
    "Error codes 5xx belong to the server, and 4xx to the client.",
    "The model is overloaded when its queue is full.",
    "Bad Gateway: the proxy got an invalid response from your app. Make sure that it listens on port 8080.",
    "Exception handling in Python uses try and except.",
    "Error handling: wrap the call in try and except, and log what failed.",
    "502 Bad Gateway\n\nThis status code means that the proxy got no valid reply.",
    "Error logs are kept for 7 days.",
    "401. You need to log in.",
    "Too many requests in a short time make the server reply with 429, so add a pause.",
    "404 pages can be customised in the settings of the site.",
    "403 Forbidden. You do not have the permission to read the bucket; ask its owner for the role Reader.",
    "The connection failed, so the ship was lost in 1845.",
    "404: This code is sent when the page does not exist.",
    "A 500 Internal Server Error is a generic error.",
    "HTTP 418 I'm a teapot was an April Fools' joke.",
    "Error 404 appears if the page was removed.",
    "TypeError: you passed a string where a number is expected.",
    "The error 'Connection refused' comes from a closed port.",
    "Timeout errors are retried three times.",
    "Code 200 means success.",
    "Status code 503: the service is down for maintenance. Retry after the time in the Retry-After header.",
    "Exit code 137. The container ran out of memory and was killed.",
    "503: the load balancer has no healthy back end.",
    "HTTP 429 Too Many Requests. Reduce the number of calls per minute, or ask support for a higher limit.",
    "Unauthorized users cannot see the dashboard.",
    "Not found.",
    "Server error messages are in the file error.log.",
    "Forbidden: you need the Editor role on the resource group to do this.",
    "NullPointerException: an object reference is null at the time of the call.",
    "401 Unauthorized - The API key is missing or wrong. Create a new key in the console.",
    "500 (Internal Server Error): Try the request again. If the problem persists, open a support case.",
    "400: The request body is not valid JSON.",
    "ERR_CONNECTION_REFUSED. Check that the server runs and that the port is open.",
    "504 Gateway Timeout: your app took longer than 60 seconds to respond.",
    "Error 1045 (28000): Access denied for user 'root'@'localhost'. Reset the password of root.",
    "ImagePullBackOff: Kubernetes cannot pull the image. Check its name and the pull secret.",
]

EXAMPLES = [
    '```json\n{"error": {"code": 404, "message": "not found"}}\n```',
    '{"status": "ok", "message": "The library opens at nine."}',
    '{"name": "Library", "usage": "free", "seats": 40}',
]

ERRORS = [
    "Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000.', 'type': 'tokens'}}",
    "Error code: 400 - {'error': {'message': \"The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry. To learn more about our content filtering policies please read our documentation: https://go.microsoft.com/fwlink/?linkid=2198766\", 'code': 'content_filter', 'status': 400}}",
    "openai.RateLimitError: Error code: 429 - {'error': {'message': 'slow down'}}",
    "RateLimitError: You exceeded your current quota, please check your plan and billing details.",
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.",
    "Incorrect API key provided: sk-abc***. You can find your API key at https://platform.openai.com/account/api-keys.",
    "Rate limit reached for gpt-4o in organization org-abc on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.",
    "Connection error.",
    "Request timed out.",
    "The server had an error while processing your request. Sorry about that!",
    "That model is currently overloaded with other requests. You can retry your request.",
    "Client error '404 Not Found' for url 'http://localhost:8000/v1/chat/completions'\nFor more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/404",
    "Server error '500 Internal Server Error' for url 'http://localhost:8000/v1/chat/completions'",
    "httpx.ReadTimeout: The read operation timed out",
    "The read operation timed out",
    "timed out",
    "All connection attempts failed",
    "httpx.ConnectError: [Errno 111] Connection refused",
    "[Errno 111] Connection refused",
    "[Errno -2] Name or service not known",
    "Server disconnected without sending a response.",
    "peer closed connection without sending complete message body (incomplete chunked read)",
    "HTTPConnectionPool(host='localhost', port=8000): Read timed out. (read timeout=60)",
    "HTTPSConnectionPool(host='api.x.com', port=443): Max retries exceeded with url: /v1/chat (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno 111] Connection refused'))",
    "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))",
    "429 Client Error: Too Many Requests for url: https://api.x.com/v1",
    "404 Client Error: Not Found for url: http://localhost:9000/ask",
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.18.0</center>\r\n</body>\r\n</html>",
    '<!DOCTYPE html>\n<!--[if lt IE 7]> <html class="no-js ie6 oldie" lang="en-US"> <![endif]-->\n<head>\n<title>api.x.com | 524: A timeout occurred</title></head><body>x</body></html>',
    "error code: 1015",
    "error code: 502",
    "502 Bad Gateway",
    "502 Bad Gateway\nnginx/1.18.0",
    "503 Service Unavailable",
    "503 Service Temporarily Unavailable",
    "504 Gateway Time-out",
    "upstream connect error or disconnect/reset before headers. reset reason: connection failure",
    "no healthy upstream",
    "upstream request timeout",
    "An error occurred (ThrottlingException) when calling the InvokeModel operation (reached max retries: 4): Too many requests, please wait before trying again.",
    "botocore.exceptions.ClientError: An error occurred (AccessDeniedException) when calling the Converse operation: You don't have access to the model with the specified model ID.",
    '{"message":"Internal server error"}',
    '{"message": "Endpoint request timed out"}',
    '{"Message":"User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel"}',
    '{"message":"Forbidden"}',
    '{"__type":"ThrottlingException","message":"Rate exceeded"}',
    '{"statusCode": 429, "message": "Rate limit is exceeded. Try again in 6 seconds."}',
    '{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}',
    '{ "error": { "code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint." } }',
    "Could not parse LLM output: `I think the library opens at nine`",
    "Agent stopped due to iteration limit or time limit.",
    "Agent stopped due to max iterations.",
    "langchain_core.exceptions.OutputParserException: Invalid json output: Sure",
    "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached",
    "litellm.APIConnectionError: OllamaException - [Errno 111] Connection refused",
    "litellm.BadRequestError: LLM Provider NOT provided. Pass in the LLM provider you are trying to call. You passed model=llama",
    "litellm.Timeout: APITimeoutError - Request timed out.",
    "litellm.ContextWindowExceededError: This model's maximum context length is 8192 tokens.",
    '{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}',
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
    '{"object":"error","message":"This model\'s maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}',
    '{"error":"model \'llama3\' not found"}',
    "model 'llama3' not found, try pulling it first",
    "Error: model 'llama3' not found, try pulling it first",
    "llama runner process has terminated: exit status 2",
    "ollama._types.ResponseError: model 'x' not found (status code: 404)",
    "Ollama call failed with status code 404. Maybe your model is not found and you should pull the model with `ollama pull llama3`.",
    "Error: Request failed with status code 500",
    "AxiosError: Request failed with status code 500",
    "Error: connect ECONNREFUSED 127.0.0.1:11434",
    "TypeError: fetch failed",
    "socket hang up",
    "Error: socket hang up",
    "503 UNAVAILABLE. {'error': {'code': 503, 'message': 'The model is overloaded. Please try again later.', 'status': 'UNAVAILABLE'}}",
    "429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'Quota exceeded'}}",
    "google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for metric",
    "rpc error: code = Unavailable desc = connection error",
    "curl: (7) Failed to connect to localhost port 8000: Connection refused",
    "Traceback (most recent call last):\n  File \"app.py\", line 3, in <module>\n    main()\nKeyError: 'answer'",
    "KeyError: 'answer'",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total capacity)",
    "AttributeError: 'NoneType' object has no attribute 'content'",
    "TypeError: 'NoneType' object is not subscriptable",
    "ValueError: Expected a string, got a list",
    '{"detail":"Not Found"}',
    '{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]}',
    '{"timestamp":"2024-01-01T00:00:00","status":500,"error":"Internal Server Error","path":"/chat"}',
    '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    "Overloaded",
    "Something went wrong. If this issue persists please contact us through our help center at help.openai.com.",
    "There was an error generating a response",
    "Sorry, something went wrong. Please try again later.",
    "An error occurred.",
    "An error occurred while generating the answer.",
    "Error",
    "[object Object]",
    "undefined",
    "Internal Server Error",
    "Error 404",
    "Error: timeout of 30000ms exceeded",
    "Error: 401 Unauthorized",
    "HTTP 500",
    "HTTP/1.1 502 Bad Gateway",
    "Status code: 500",
    "HTTP Error 503: Service Unavailable",
    "urllib.error.HTTPError: HTTP Error 503: Service Unavailable",
    '{"error":"Input validation error: `inputs` must have less than 1024 tokens. Given: 2000","error_type":"validation"}',
    '{"error":"Model x is currently loading","estimated_time":20.0}',
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>',
    "Failed to generate a response.",
    "Error code: 429 - slow down",
    "anthropic.APIStatusError: Error code: 529 - {'type': 'error'}",
    "Rate limit exceeded. Please try again later.",
    "Service unavailable",
    "API error",
    "Error: The model `gpt-5` does not exist",
    "asyncio.exceptions.TimeoutError",
    "requests.exceptions.ConnectionError: HTTPConnectionPool(host='x', port=80): Max retries exceeded",
    "Exception: Failed",
    "openai.APIConnectionError: Connection error.",
    "openai.APITimeoutError: Request timed out.",
    "Error: 429 Too Many Requests",
    "HTTP error! status: 500",
    "HTTP 503: Service Unavailable",
    "httpx.HTTPStatusError: Server error '502 Bad Gateway' for url 'http://x'",
    "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host localhost:8000 ssl:default [Connect call failed ('127.0.0.1', 8000)]",
    "Cannot connect to host localhost:8000 ssl:default [Connect call failed ('127.0.0.1', 8000)]",
    "429, message='Too Many Requests', url=URL('https://x')",
    "groq.RateLimitError: Error code: 429",
    "An error occurred while processing your request.",
    "Error: Failed to fetch",
    "Failed to fetch",
    "Network Error",
    "Request failed with status code 404",
    "Error invoking model: 500",
    "500 Internal Server Error\nServer got itself in trouble",
    "Error during inference: CUDA out of memory",
    "ThrottlingException: Rate exceeded",
    "ModelNotReadyException: The model is not ready",
    "ValidationException: Malformed input request: #: required key [messages] not found",
    "{'error': {'message': 'x', 'type': 'y'}}",
    "[ERROR] Request timed out",
    "⚠️ Error: rate limit exceeded",
    "ERROR: 500",
    "Error generating response: HTTPSConnectionPool(host='x', port=443): Read timed out.",
    "Error: Invalid API key",
    "Sorry, I encountered an error. Please try again.",
    "Oops! Something went wrong.",
    "<Response [500]>",
    "upstream timed out (110: Connection timed out) while reading response header from upstream",
    "context deadline exceeded",
    "Unable to connect to the server",
    "The model `gpt-9` does not exist or you do not have access to it.",
    "Input is too long for requested model.",
    "Error: ENOTFOUND api.openai.com",
    "Azure has not provided the response due to a content filter being triggered",
    "error sending request for url (http://localhost:11434/api/chat)",
    "The remote server returned an error: (404) Not Found.",
    "Exception: HTTP 500",
    "Service Unavailable",
    "Bad Gateway",
    "Gateway Timeout",
]

CALLS = [
    '[{"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{\\"query\\": \\"library\\"}"}}]',
    '{"tool_calls": [{"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}]}',
    '{"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "s", "arguments": "{}"}}]}',
    "[{'id': 'call_1', 'type': 'function', 'function': {'name': 'search', 'arguments': '{}'}}]",
    "Thought: I should search.\nAction: search\nAction Input: library hours",
    'Action: search\nAction Input: {"q": "x"}',
    "Thought 1: I need to look.\nAction 1: Search[library hours]",
    'Action:\n```json\n{"action": "search", "action_input": "x"}\n```',
    '```json\n{"action": "search", "action_input": "x"}\n```',
    '<invoke name="search"><parameter name="query">library</parameter></invoke>',
    '<function_calls>\n<invoke name="search">\n<parameter name="query">x</parameter>\n</invoke>\n</function_calls>',
    '<x:function_calls><x:invoke name="s"></x:invoke></x:function_calls>',
    '<tool_call>{"name": "search", "arguments": {"q": "x"}}</tool_call>',
    "<tool_call>\n<function=search>\n<parameter=query>\nx\n</parameter>\n</function>\n</tool_call>",
    'I will look. <tool_call>{"name": "search"}',
    "<function=search><parameter=q>x</parameter></function>",
    '[TOOL_CALLS][{"name": "search", "arguments": {"q": "x"}}]',
    '<|python_tag|>search.call(query="x")',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{}",
    '[search(query="x")]',
    '{"type": "tool_use", "id": "t", "name": "search", "input": {"q": "x"}}',
    '[{"type": "tool_use", "id": "t", "name": "search", "input": {}}]',
    '{"functionCall": {"name": "search", "args": {}}}',
    "[ChatCompletionMessageToolCall(id='call_1', function=Function(arguments='{}', name='search'), type='function')]",
    "```tool_code\nsearch(query='x')\n```",
    '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "s", "parameters": {}}]<|END_ACTION|>',
    '<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"q": "x"}',
    '{"name": "search", "parameters": {"q": "x"}}',
    "<tool_use><name>search</name></tool_use>",
    "<tool_call>{}</tool_call>",
    '{"function_call": {"name": "search", "arguments": "{\\"q',
    "<search>library hours</search>",
    '{"tool": "search", "input": "x"}',
    '<minimax:tool_call><invoke name="s"></invoke></minimax:tool_call>',
]

ANSWERS_ABOUT_CALLS = [
    "Models write <tool_call> before a call.",
    "Write `<tool_call>{}` to call.",
    "The mark [TOOL_CALLS] is Mistral's.",
    "DeepSeek begins with <｜tool▁calls▁begin｜> and goes on.",
    "A parameter stands in <function=NAME> and </function>.",
    "<tool_call> is a mark that Hermes writes.",
    "In harmony a header such as `to=functions.search` names the tool.",
    "Use <search> and </search> around the words.",
    "Action: press the red button.",
    "Thought: a process of the mind.",
    '{"name": "Bob", "age": 3}',
    "The agent loop has three steps: Thought, Action and Action Input. The model writes all three.",
    "Call it with search(query='x') or [search(query='x')].",
    "[1](https://example.org/search?query=x) says so.",
    "Put the JSON between <tool_call> and </tool_call>.",
    "GLM writes <arg_key>query</arg_key>.",
    "The channel is named to=functions.search in the header.",
    "The tool was named in the header as to=",
    "Her remarks are in the\ncommentary",
    "[1] says so (search(query) too).",
]

OUTPUT = [
    "<coroutine object RunnableSequence.ainvoke at 0x7f3a00>",
    "<generator object stream at 0x7f00ab12>",
    "<async_generator object f at 0x7f00>",
    "<openai.Stream object at 0x7f8b1c>",
    "<function <lambda> at 0x7f8b1c2d>",
    "<bound method Chain.run of <Chain object at 0x7f8b1c>>",
    "<class 'str'>",
    "<Response [200]>",
    "<Response [200 OK]>",
    "<Task pending name='Task-1' coro=<f() running at a.py:3>>",
    "<Future pending>",
    "[object Object]",
    "[object Promise]",
    "Promise { <pending> }",
    "[Function: answer]",
    "[AsyncFunction: run]",
    "com.example.Answer@1b6d3586",
    "System.Threading.Tasks.Task`1[System.String]",
    "0xc000012080",
    "tensor([[  101,  2023]])",
    'data: {"id":"x","choices":[{"delta":{"content":"The"}}]}\n\ndata: {"choices":[{"delta":{"content":" library"}}]}\n\ndata: [DONE]\n\n',
    "data: The\n\ndata:  library\n\ndata: [DONE]",
    'event: message\ndata: {"text": "The"}\n\nevent: end\ndata: {}',
    '0:"The"\n0:" library"\nd:{"finishReason":"stop"}',
    '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"The library opens at nine."},"finish_reason":"stop"}],"usage":{"total_tokens":3}}',
    '{"candidates":[{"content":{"parts":[{"text":"The library opens."}]}}],"usageMetadata":{}}',
    '{"model":"llama3","created_at":"x","message":{"role":"assistant","content":"The"},"done":true}',
    '{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"The library"}],"stop_reason":"end_turn"}',
]

WRAPPED = [
    "ChatCompletion(id='chatcmpl-1', choices=[Choice(finish_reason='stop', message=ChatCompletionMessage(content='The library'))])",
    "AIMessage(content='The library opens.', additional_kwargs={})",
    "content='The library opens at nine.' additional_kwargs={} response_metadata={}",
    "b'The library opens at nine on weekdays only.'",
    '{"answer": "It is open.", "sources": ["a.pdf", "b.pdf", "c.pdf", "d.pdf"]}',
    "{'question': 'When?', 'context': [Document(page_content='x')], 'answer': 'At nine.'}",
    "You are a helpful assistant. Answer from the passages.\n\nThe library opens at nine.",
    "[{'type': 'thinking', 'thinking': 'They ask.'}, {'type': 'text', 'text': 'At nine.'}]",
    "[TextBlock(citations=None, text='The library', type='text')]",
    "Response(response='The library opens', source_nodes=[NodeWithScore()])",
    '{"model":"llama3","created_at":"x","response":"The","done":false}\n{"model":"llama3","created_at":"x","response":" lib","done":true}',
]

PLAIN = [
    "data: 5 of 7 tables are full.",
    "The mark is <b>at</b> 0x10.",
    "0x1F is 31 in decimal.",
    "The generator is a machine that makes power.",
    "[1] The library opens at nine.",
    "Choices: red, green and blue.",
    "data: numbers about things\nmetadata: data about data",
    "Email me at help@abcdef.org",
    "event: a change of state.\n\ndata: facts about it.",
    '{"steps": [1, 2, 3], "unit": "minutes"} is the JSON of it.',
]


def scored(reply: str) -> str:
    return answer_text(reply, "</think>")


@pytest.mark.parametrize("reply", [*ANSWERS_ABOUT_ERRORS, *ANSWERS_ABOUT_CALLS, *PLAIN])
def test_an_answer_that_speaks_of_a_form_stays_an_answer(reply: str) -> None:
    assert scored(reply) == reply
    assert not is_no_answer(reply)
    assert not is_wrapped(reply)


@pytest.mark.parametrize("reply", EXAMPLES)
def test_json_with_data_is_an_answer(reply: str) -> None:
    assert not is_no_answer(scored(reply))


@pytest.mark.parametrize("reply", ERRORS)
def test_what_clients_and_gateways_write_is_an_error(reply: str) -> None:
    assert is_no_answer(scored(reply))
    assert is_error_text(scored(reply)) or is_wrapped(scored(reply))


@pytest.mark.parametrize("reply", CALLS)
def test_a_call_of_a_tool_is_no_answer(reply: str) -> None:
    assert is_tool_call(scored(reply))


@pytest.mark.parametrize("reply", OUTPUT)
def test_the_output_of_a_program_is_no_answer(reply: str) -> None:
    assert is_no_answer(scored(reply))
    assert is_wrapped(scored(reply))


@pytest.mark.parametrize("reply", WRAPPED)
def test_an_answer_in_a_printed_object_or_behind_a_prompt_is_wrapped(reply: str) -> None:
    assert is_wrapped(scored(reply))


@pytest.mark.parametrize(
    "piece", ["Thought: a\n", "data: x\n", "\n", "<think>", "</think>\n", "<p>", "\\n.", "[", "error: "]
)
def test_a_long_reply_is_read_in_one_go(piece: str) -> None:
    """Ten thousand signs; a pattern that tries every split of lines would take hours."""
    reply = f"Thought: {piece * (10_000 // len(piece))}"
    assert isinstance(is_no_answer(scored(reply)) or is_wrapped(reply), bool)


def deep(mark: str) -> str:
    return f"<\uff5ctool▁{mark}\uff5c>"


WRITERS: dict[str, Callable[[dict[str, str]], str]] = {
    "hermes": lambda given: f'<tool_call>\n{{"name": "search", "arguments": {json.dumps(given)}}}\n</tool_call>\n',
    "llama": lambda given: f'<|python_tag|>{{"name": "search", "parameters": {json.dumps(given)}}};',
    "mistral": lambda given: f"[TOOL_CALLS]search[ARGS]{json.dumps(given, ensure_ascii=False)}",
    "qwen3 coder": lambda given: "<tool_call>\n<function=search>\n" + "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in given.items()
    ) + "</function>\n</tool_call>\n",
    "glm": lambda given: "<tool_call>search\n" + "".join(
        f"<arg_key>{name}</arg_key>\n<arg_value>{value}</arg_value>\n" for name, value in given.items()
    ) + "</tool_call>\n",
    "deepseek v3": lambda given: f"{deep('calls▁begin')}{deep('call▁begin')}function{deep('sep')}search\n"
    f"```json\n{json.dumps(given)}\n```{deep('call▁end')}\n",
    "deepseek v3.1": lambda given: f"{deep('call▁begin')}search{deep('sep')}{json.dumps(given)}{deep('call▁end')}",
    "gpt-oss": lambda given: "<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>"
    f"{json.dumps(given)}<|call|>",
    "gpt-oss, special tokens dropped": lambda given: "assistantcommentary to=functions.search json"
    f"{json.dumps(given)}",
    "pythonic": lambda given: "[search(" + ", ".join(f"{name}={value!r}" for name, value in given.items()) + ")]",
}  # fmt: skip
"""Arguments -> a call of `search` as a model writes it."""


@pytest.mark.parametrize("form", WRITERS)
def test_each_form_of_a_call_is_no_answer(form: str) -> None:
    assert is_tool_call(WRITERS[form]({"query": "permit cost"}))


@pytest.mark.parametrize("form", [name for name in WRITERS if name != "pythonic"])
def test_a_call_that_is_cut_off_is_no_answer(form: str) -> None:
    written = f"I look.\n{WRITERS[form]({'query': 'permit cost'})}"
    assert is_tool_call(written[: written.index("cost")])
