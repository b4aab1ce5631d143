# Calls the server with KServe's own clients. Arguments: the addresses of REST and gRPC.
# Prints a line "ok WHAT" or "FAIL WHAT" for every check.
import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig


def ok(x, what):
    print("ok" if x else "FAIL", what)


a, b = np.arange(16, dtype=np.int32).reshape(1, 16), np.ones((1, 16), np.int32)


def request(binary, model="simple"):
    inputs = []
    for name, x in (("INPUT0", a), ("INPUT1", b)):
        i = InferInput(name, [1, 16], "INT32")
        i.set_data_from_numpy(x, binary_data=binary)
        inputs.append(i)
    return InferRequest(model_name=model, infer_inputs=inputs, request_id="7")


async def rest(url):
    c = InferenceRESTClient(RESTConfig(protocol="v2"))
    ok(await c.is_server_live(url), "REST live")
    ok(await c.is_server_ready(url), "REST ready")
    ok(await c.is_model_ready(url, "simple"), "REST model ready")
    for binary in (True, False):
        r = await c.infer(url, request(binary), model_name="simple")
        out = {o.name: o.as_numpy() for o in r.outputs}
        ok((out["OUTPUT0"] == a + b).all() and (out["OUTPUT1"] == a - b).all() and r.id == "7", "REST infer, binary %s" % binary)
    try:
        await c.infer(url, request(False, "none"), model_name="none")
        ok(False, "REST error of an unknown model")
    except Exception as e:
        ok("404" in str(e) or "unknown" in str(e).lower(), "REST error: %s" % e)
    await c.close()


async def grpc(url):
    async with InferenceGRPCClient(url) as c:
        ok(await c.is_server_live(), "gRPC live")
        ok(await c.is_server_ready(), "gRPC ready")
        ok(await c.is_model_ready("simple"), "gRPC model ready")
        for binary in (True, False):
            r = await c.infer(request(binary))
            out = {o.name: o.as_numpy() for o in r.outputs}
            ok((out["OUTPUT0"] == a + b).all() and (out["OUTPUT1"] == a - b).all() and r.id == "7", "gRPC infer, binary %s" % binary)


asyncio.run(rest("http://" + sys.argv[1]))
asyncio.run(grpc(sys.argv[2]))
