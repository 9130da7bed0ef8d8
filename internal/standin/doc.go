// Package standin plays the parts of a serving stack that need GPUs, for tests
// and the demo: an engine in the shape of SGLang's server, a router in the shape
// of sglang-router, and a small load client.
//
// The engine listens, loads, answers and fails as the real one does, over the
// same HTTP and with the same command line, so that launchers, routers and
// clients work with it unchanged. Only the tokens are made up. A decode worker
// answers a request only after it has fetched the request's KV from the prefill
// worker over TCP, so an answer proves that the path between the two works.
//
// Faults are asked for in the environment variable STANDIN_FAULT or, while it
// runs, at the path /_standin/fault; see ParseFaults.
//
// Main dispatches on the command line: "python3 -m sglang.launch_server …",
// "python3 -m sglang_router.launch_router …", "vllm serve …" or "standin load …".
// In vLLM's shape a worker takes MoRI-IO's KV transfer settings, registers at
// the router's discovery address, and carries the place of KV as vLLM does.
package standin
