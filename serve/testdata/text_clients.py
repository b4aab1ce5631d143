"""Calls a server of model folders with OpenAI's, LangChain's and LlamaIndex's clients.

Usage: text_clients.py HOST:PORT. Prints a line "ok NAME" or "FAIL NAME: why" for each check.
"""

import asyncio
import sys
import traceback

import httpx
import openai
from huggingface_hub import AsyncInferenceClient, InferenceClient
from langchain_huggingface import HuggingFaceEndpointEmbeddings
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

base = "http://" + sys.argv[1]
texts = ["a cat sits", "Paris", "good food in berlin"]
failed = False


def close(a, b):
    return len(a) == len(b) and all(abs(x - y) < 1e-6 for x, y in zip(a, b))


def check(f):
    global failed
    try:
        f()
        print("ok", f.__name__)
    except Exception:
        failed = True
        print("FAIL", f.__name__ + ":", traceback.format_exc().replace("\n", " | "))


want = httpx.post(base + "/embed", json={"inputs": texts}).json()
client = openai.OpenAI(base_url=base + "/v1", api_key="key", max_retries=0)


@check
def openai_models():
    assert "embedder" in [m.id for m in client.models.list()]


@check
def openai_base64():  # the client's default
    r = client.embeddings.create(model="embedder", input=texts)
    assert [d.index for d in r.data] == [0, 1, 2] and r.model == "embedder"
    assert all(close(d.embedding, w) for d, w in zip(r.data, want))
    assert r.usage.prompt_tokens == r.usage.total_tokens == 5 + 3 + 6


@check
def openai_float():
    r = client.embeddings.create(model="embedder", input=texts[0], encoding_format="float", user="u")
    assert close(r.data[0].embedding, want[0])


@check
def openai_tokens():
    ids = [t["id"] for t in httpx.post(base + "/models/embedder/tokenize", json={"inputs": texts[0]}).json()[0]]
    for tokens in (ids, [ids]):
        r = client.embeddings.create(model="embedder", input=tokens)
        assert close(r.data[0].embedding, want[0]) and r.usage.prompt_tokens == len(ids)


@check
def openai_dimensions():
    assert len(client.embeddings.create(model="embedder", input="a", dimensions=2).data[0].embedding) == 2


@check
def openai_errors():
    for kind, args in (
        (openai.NotFoundError, {"model": "missing", "input": "a"}),
        (openai.BadRequestError, {"model": "embedder", "input": "a", "dimensions": 99}),
        (openai.BadRequestError, {"model": "embedder", "input": []}),
    ):
        try:
            client.embeddings.create(**args)
        except kind as e:
            assert e.body["message"] and e.body["type"] == "invalid_request_error", e.body
        else:
            raise AssertionError(f"no error for {args}")


@check
def openai_async():
    async def run():
        async with openai.AsyncOpenAI(base_url=base + "/v1", api_key="key", max_retries=0) as c:
            calls = [c.embeddings.create(model="embedder", input=t) for t in texts * 20]
            return await asyncio.gather(*calls)

    for r, w in zip(asyncio.run(run()), want * 20):
        assert close(r.data[0].embedding, w)


@check
def langchain():
    e = HuggingFaceEndpointEmbeddings(model="embedder", huggingfacehub_api_token="key")
    # The class takes the address of a server by its client only.
    url = base + "/models/embedder"
    e.client, e.async_client = InferenceClient(model=url), AsyncInferenceClient(model=url)
    assert all(close(a, b) for a, b in zip(e.embed_documents(texts), want))
    assert close(e.embed_query(texts[0]), want[0])
    assert close(asyncio.run(e.aembed_query(texts[0])), want[0])


@check
def huggingface_hub():
    c = InferenceClient(model=base + "/models/embedder")
    v = c.feature_extraction(texts, normalize=True, truncate=True, truncation_direction="left", dimensions=2)
    assert v.shape == (3, 2)


@check
def llama_index():
    e = TextEmbeddingsInference(model_name="embedder", base_url=base, embed_batch_size=2)
    assert all(close(a, b) for a, b in zip(e.get_text_embedding_batch(texts), want))
    assert close(asyncio.run(e.aget_text_embedding(texts[1])), want[1])
    assert len(e.get_query_embedding("cat")) == 4  # of the text with a prefix of the client


sys.exit(failed)
