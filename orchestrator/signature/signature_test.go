package signature

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// examples has, for each signature, lines as programs print them; lines before
// the last set the phase.
func examples() map[string]struct{ program, log string } {
	return map[string]struct{ program, log string }{
		"oom.capture":           {"sglang", "[2026-01-01 10:00:00 TP3] Capture cuda graph begin. This can take up to several minutes. avail mem=3.10 GB\n[2026-01-01 10:00:09 TP3] torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 287.98 GiB"},
		"oom.load":              {"sglang", "[2026-01-01 10:00:00 TP0] Load weight begin. avail mem=280.44 GB\ntorch.OutOfMemoryError: HIP out of memory. Tried to allocate 896.00 MiB."},
		"oom.gpu":               {"vllm", "INFO:     Application startup complete.\n(EngineCore pid=7) ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"},
		"oom.pool":              {"sglang", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."},
		"oom.kvcache":           {"vllm", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."},
		"oom.host":              {"sglang", "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 137438953472 bytes. Error code 12 (Cannot allocate memory)"},
		"hsa.resources":         {"sglang", ":0:rocdevice.cpp            :3020: 1184 us:  Callback: Queue 0x7f2c aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. Available Free mem : 30 MB"},
		"shm":                   {"vllm", "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1a2b'"},
		"disk":                  {"atom", "OSError: [Errno 28] No space left on device: '/home/user/.cache/aiter'"},
		"graph.capture":         {"vllm", "[rank0]:[E1030 15:32:32.970893361 ProcessGroupNCCL.cpp:2055] [PG ID 5 PG GUID 51 Rank 0] Process group watchdog thread terminated with exception: HIP error: operation not permitted when stream is capturing"},
		"graph.failed":          {"sglang", "Exception: Capture cuda graph failed: an error occurred"},
		"gpu.invalid-device":    {"sglang", "torch.AcceleratorError: HIP error: invalid device ordinal"},
		"gpu.none":              {"sglang", "RuntimeError: No HIP GPUs are available"},
		"gpu.kfd":               {"vllm", "Unable to open /dev/kfd read-write: Permission denied"},
		"gpu.fault":             {"sglang", "Memory access fault by GPU node-2 (Agent handle: 0x55d2) on address 0x7f21. Reason: Unknown."},
		"gpu.arch":              {"vllm", "RuntimeError: HIP error: invalid device function"},
		"gpu.kernel-resources":  {"vllm", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536."},
		"kv.state-components":   {"sglang", "RuntimeError: state component count mismatch: prefill has 3, decode has 4"},
		"kv.tp":                 {"sglang", "RuntimeError: PD Disaggregation does NOT support PD different TP sizes for non-MLA hybrid models"},
		"kv.bootstrap":          {"sglang", "Prefill bootstrap failed for request rank=2 req.rid='d3' req.bootstrap_room=59 with exception KVTransferError(bootstrap_room=59): Request 59 timed out after 300.0s in KVPoll.Bootstrapping"},
		"kv.transfer-timeout":   {"sglang", "Decode transfer failed for request rank=1 decode_req.req.rid='3c' with exception KVTransferError(bootstrap_room=16): Request 16 timed out after 600s in KVPoll.WaitingForInput"},
		"kv.mori":               {"vllm", "ERROR [moriio_engine.py:533] RDMA transfer failed: send queue exhausted (code=7)"},
		"kv.nixl":               {"vllm", "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND"},
		"kv.fallback":           {"vllm", "WARNING KV load failed for request cmpl-1; recompute policy applies"},
		"addr.in-use":           {"sglang", "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"},
		"rdma.abi":              {"sglang", "libibverbs: Warning: Driver ionic does not support the kernel ABI of 1 (supports 2 to 4) for device /sys/class/infiniband/ionic_0"},
		"rdma.none":             {"sglang", "No IB devices found"},
		"rdma.memlock":          {"sglang", "gpu-01:812:990 [3] transport/net_ib.cc:1220 NCCL WARN Call to ibv_reg_mr failed with error Bad address"},
		"rdma.qp":               {"sglang", "E0917 16:23:13 worker_pool.cpp:277] Worker: Process failed for slice (opcode: 0): transport retry counter exceeded"},
		"net.interface":         {"sglang", "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: eno9"},
		"net.fds":               {"router", "thread panicked: Os { code: 24, kind: Uncategorized, message: \"Too many open files\" }"},
		"weights.missing":       {"sglang", "FileNotFoundError: No such file or directory: \"/models/big-moe/model-00007-of-00042.safetensors\""},
		"weights.broken":        {"sglang", "safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization"},
		"weights.gated":         {"vllm", "huggingface_hub.errors.GatedRepoError: 401 Client Error."},
		"weights.remote-code":   {"vllm", "ValueError: Please pass the argument `trust_remote_code=True` to allow custom code to be run."},
		"image.library":         {"vllm", "ImportError: /usr/lib/libmori.so: undefined symbol: ibv_reg_dmabuf_mr"},
		"image.module":          {"sglang", "ModuleNotFoundError: No module named 'mori'"},
		"image.command":         {"sglang", "bash: line 1: sglang-router: command not found"},
		"cache.lock":            {"sglang", "[aiter] waiting for baton release at /sgl-workspace/aiter/aiter/jit/build/lock_module_rmsnorm"},
		"args.unknown":          {"sglang", "launch_server.py: error: unrecognized arguments: --enable-dp-attention-v9"},
		"args.value":            {"router", "launch_router.py: error: argument --policy: invalid choice: 'consistent_hashing' (choose from 'random', 'round_robin', 'cache_aware', 'power_of_two', 'manual')"},
		"args.divisible":        {"sglang", "AssertionError: num_attention_heads 40 is not divisible by tp_size 16"},
		"args.context":          {"vllm", "ValueError: User-specified max_model_len (1000000) is greater than the derived max_model_len (163840)"},
		"router.circuit-open":   {"router", `{"error":{"message":"No available prefill workers (all circuits open or unhealthy)"}}`},
		"router.no-workers":     {"router", "WARN Failed to select PD pair error=No prefill servers available"},
		"router.prefill-failed": {"router", "ERROR Prefill server failed (CRITICAL) prefill_url=http://10.0.0.1:8000. Decode will timeout without prefill KV cache."},
		"router.decode-failed":  {"router", `{"error":{"type":"Bad Gateway","code":"decode_server_error","message":"Decode server error: error sending request for url"}}`},
		"peer.lost":             {"sglang", "gpu-02:99:120 [0] socket.c:540 NCCL WARN Net : Connection closed by remote peer gpu-03<41234>"},
		"peer.rendezvous":       {"vllm", "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined."},
		"peer.collective":       {"sglang", "[rank2]:[E] [PG ID 2 Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran for 600010 milliseconds"},
		"engine.watchdog":       {"sglang", "[TP0] Watchdog timeout (self.watchdog_last_forward_tick=120.1, self.watchdog_timeout=300)"},
		"engine.child":          {"vllm", "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}"},
	}
}

func TestEverySignatureFindsItsExample(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, sig := range Table() {
		if seen[sig.ID] {
			t.Errorf("%s is in the table twice", sig.ID)
		}
		seen[sig.ID] = true
		if sig.Meaning == "" || sig.Remedy == "" || sig.Source == "" || len(sig.Any) == 0 {
			t.Errorf("%s is incomplete: %+v", sig.ID, sig)
		}
		if sig.Pattern != "" {
			if _, err := regexp.Compile(sig.Pattern); err != nil {
				t.Errorf("%s: %v", sig.ID, err)
			}
		}
		ex, ok := examples()[sig.ID]
		if !ok {
			t.Errorf("%s has no example", sig.ID)
			continue
		}
		m, ok := Best(Lines(ex.program, strings.Split(ex.log, "\n")))
		if !ok || m.ID != sig.ID {
			t.Errorf("%s: its example is explained by %q", sig.ID, m.ID)
		}
	}
	for id := range examples() {
		if !seen[id] {
			t.Errorf("example for %s, which is not in the table", id)
		}
	}
}

func TestHealthyLogMatchesNothing(t *testing.T) {
	t.Parallel()
	log := []string{
		"[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/models/m', tp_size=8, watchdog_timeout=300, disable_cuda_graph=False)",
		"[2026-01-01 10:00:01 TP0] Load weight begin. avail mem=280.44 GB",
		"Loading safetensors checkpoint shards: 100% Completed | 163/163 [01:02<00:00,  2.61it/s]",
		"[2026-01-01 10:02:01 TP0] Memory pool end. avail mem=31.20 GB",
		"[2026-01-01 10:02:01 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=30.02 GB",
		"[2026-01-01 10:03:01] The server is fired up and ready to roll!",
		"[2026-01-01 10:03:02] INFO:     10.0.0.1:4411 - \"GET /health HTTP/1.1\" 200 OK",
		"[2026-01-01 10:03:03 TP0] Decode batch. #running-req: 12, #token: 40231, token usage: 0.02, gen throughput (token/s): 803.17, #queue-req: 0,",
	}
	for _, program := range []string{"sglang", "vllm", "atom", "router"} {
		if got := Lines(program, log); len(got) != 0 {
			t.Errorf("%s: %v", program, got)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "hello", "hello"},
		{"colours split a word", "No available pre\x1b[0mfill work\x1b[1;31mers", "No available prefill workers"},
		{"title sequence", "\x1b]0;title\x07text", "text"},
		{"string sequence ended by ESC backslash", "\x1bPq#0\x1b\\text", "text"},
		{"charset selection", "\x1b(Btext", "text"},
		{"cut sequence", "text\x1b[3", "text"},
		{"lone escape", "text\x1b", "text"},
		{"not UTF-8", "\xff\xfe clang: ERROR", "\ufffd\ufffd clang: ERROR"},
		{"controls and tabs", "a\x00b\x08c\td\x7f", "abc d"},
		{"direction override", "abc\u202edef", "abcdef"},
		{"other scripts stay", "ошибка 错误", "ошибка 错误"},
		{"trailing blanks", "x  \t", "x"},
	} {
		if got := Clean([]byte(tc.in)); got != tc.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", tc.name, tc.in, got, tc.want)
		}
	}
}

func TestScannerReadsWhatLogsAreLike(t *testing.T) {
	t.Parallel()
	type hit struct {
		ID    string
		Line  int
		Count int
	}
	for _, tc := range []struct {
		name, program, log string
		want               []hit
	}{
		{"colours, bad bytes", "router", "\xff\xfe clang: \x1b[31mERROR\x1b[0m: No available pre\x1b[0mfill workers\n", []hit{{"router.no-workers", 1, 1}}},
		{"carriage returns", "sglang", "1%\r2%\r3%\rRuntimeError: No HIP GPUs are available\r\nnext\n", []hit{{"gpu.none", 1, 1}}},
		{"no newline at the end", "sglang", "a\nNo HIP GPUs are available", []hit{{"gpu.none", 2, 1}}},
		{"ranks in one file, counted", "sglang", "TP0 HIP error: invalid device ordinal\nTP1 ok\nTP2 HIP error: invalid device ordinal\nTP3 No HIP GPUs are available\n", []hit{{"gpu.invalid-device", 1, 2}, {"gpu.none", 4, 1}}},
		{"phase decides", "sglang", "Load weight begin\nHIP out of memory\nCapture cuda graph begin\nHIP out of memory\nfired up and ready to roll\nHIP out of memory\n", []hit{{"oom.load", 2, 1}, {"oom.capture", 4, 1}, {"oom.gpu", 6, 1}}},
		{"another engine's entry", "sglang", "No available memory for the cache blocks\n", nil},
		{"a line of 8 MB, then the error", "sglang", strings.Repeat("x", 8<<20) + "\nNo HIP GPUs are available\n", []hit{{"gpu.none", 2, 1}}},
		{"error at the start of a long line", "sglang", "No HIP GPUs are available " + strings.Repeat("x", 1<<20) + "\n", []hit{{"gpu.none", 1, 1}}},
	} {
		s := NewScanner(tc.program)
		// Pieces of odd sizes: a write may end anywhere.
		if _, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{strings.NewReader(tc.log)}, make([]byte, 7)); err != nil {
			t.Fatal(err)
		}
		var got []hit
		for _, m := range s.Matches() {
			got = append(got, hit{m.ID, m.Line, m.Count})
			if len(m.Text) > maxText+len(" …") {
				t.Errorf("%s: text of %d bytes", tc.name, len(m.Text))
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestFoundWaitsForTheEndOfALine(t *testing.T) {
	t.Parallel()
	s := NewScanner("sglang")
	for _, step := range []struct {
		text  string
		count int
	}{{"No HIP GPUs are avail", 0}, {"able", 0}, {"\nNo HIP GPUs", 1}, {" are available\n", 2}} {
		_, _ = s.Write([]byte(step.text))
		got := 0
		for _, m := range s.Found() {
			got += m.Count
		}
		if got != step.count {
			t.Errorf("after %q: %d lines, want %d", step.text, got, step.count)
		}
	}
}

func TestBestPrefersTheCause(t *testing.T) {
	t.Parallel()
	log := []string{
		"libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1) for device /sys/class/infiniband/bnxt_re2",
		"NCCL WARN Net : Connection closed by remote peer",
		"RuntimeError: Engine core initialization failed. See root cause above.",
		"HIP error: invalid device ordinal",
		"RuntimeError: No HIP GPUs are available",
	}
	for n, want := range map[int]string{1: "rdma.abi", 2: "rdma.abi", 3: "rdma.abi", 4: "gpu.invalid-device", 5: "gpu.invalid-device"} {
		if m, ok := Best(Lines("vllm", log[:n])); !ok || m.ID != want {
			t.Errorf("first %d lines: %q, want %q", n, m.ID, want)
		}
	}
	if m, ok := Best(Lines("vllm", log[1:3])); !ok || m.ID != "peer.lost" || m.Grade != Effect {
		t.Errorf("effects only: %+v", m)
	}
	if m, ok := Best(nil); ok {
		t.Errorf("nothing found, yet %v", m)
	}
}

// A big log must not take long or much memory: it is read while the run stops.
func BenchmarkScanner(b *testing.B) {
	var log bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	for log.Len() < 8<<20 {
		fmt.Fprintf(&log, "[2026-01-01 10:03:03 TP%d] Decode batch. #running-req: %d, #token: %d, token usage: 0.02, gen throughput (token/s): %.2f, #queue-req: 0,\n", r.IntN(8), r.IntN(256), r.IntN(1<<20), r.Float64()*1000)
	}
	b.SetBytes(int64(log.Len()))
	b.ReportAllocs()
	for b.Loop() {
		s := NewScanner("sglang")
		if _, err := s.Write(log.Bytes()); err != nil {
			b.Fatal(err)
		}
		if len(s.Matches()) != 0 {
			b.Fatal("matched a healthy log")
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, ex := range examples() {
		f.Add([]byte(ex.log), 5)
	}
	f.Add([]byte("\x1b[31m\r\n\xff\x1b]"), 2)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		whole := NewScanner("sglang")
		_, _ = whole.Write(data)
		cut = min(max(cut, 0), len(data))
		parts := NewScanner("sglang")
		_, _ = parts.Write(data[:cut])
		_, _ = parts.Write(data[cut:])
		if diff := cmp.Diff(whole.Matches(), parts.Matches()); diff != "" {
			t.Errorf("cut at %d changes the matches:\n%s", cut, diff)
		}
		if clean := Clean(data); strings.ContainsFunc(clean, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			t.Errorf("Clean(%q) = %q holds control characters", data, clean)
		}
	})
}

// TestFilterLosesNothing: what the quick look lets through holds every line that a
// text is in.
func TestFilterLosesNothing(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sglang", "vllm", "atom", "router"} {
		s := NewScanner(program)
		for _, c := range s.table {
			for _, text := range c.any {
				for _, line := range [][]byte{text, []byte("x" + string(text)), []byte(string(text) + " and more")} {
					if !s.quick.maybe(line) {
						t.Errorf("%s: %q is not seen", c.ID, line)
					}
				}
			}
		}
		if s.quick.short {
			t.Errorf("%s: a text is too short for the quick look", program)
		}
	}
}

// TestHugeLog finds the first error of one rank among those of others in 100 MB of
// an ordinary log, with colours, carriage returns and bytes that are no text.
func TestHugeLog(t *testing.T) {
	t.Parallel()
	var block bytes.Buffer
	for i := 0; block.Len() < 1<<20; i++ {
		fmt.Fprintf(&block, "[2026-01-01 10:03:03 TP%d] \x1b[32mDecode batch\x1b[0m. #running-req: %d, #token: %d, token usage: 0.02, gen throughput (token/s): %d.17, #queue-req: 0,\n", i%8, i%256, i*17, i%900)
		if i%50 == 0 {
			fmt.Fprintf(&block, "\xff\xfe 10%%|█ | %d/163\r20%%|██ | %d/163\r\n", i%163, i%163)
		}
	}
	s := NewScanner("sglang")
	lines := bytes.Count(block.Bytes(), []byte("\n"))
	for i := range 100 {
		_, _ = s.Write(block.Bytes())
		if i == 49 {
			_, _ = s.Write([]byte("[2026-01-01 10:03:04 TP5] \x1b[31mMemory access fault by GPU\x1b[0m node-2 (Agent handle: 0x55d2) on address 0x7f21. Reason: Unknown.\n" +
				"[2026-01-01 10:03:05 TP1] NCCL WARN Net : Connection closed by remote peer gpu-03<41234>\n"))
		}
	}
	m, ok := Best(s.Matches())
	if !ok || m.ID != "gpu.fault" || m.Line != 50*lines+1 || !strings.HasPrefix(m.Text, "[2026-01-01 10:03:04 TP5] Memory access fault by GPU node-2") {
		t.Errorf("found %+v, want gpu.fault on line %d", m, 50*lines+1)
	}
}

func TestPeers(t *testing.T) {
	t.Parallel()
	peers := []Peer{
		{Name: "prefill-0", Texts: []string{"10.0.0.1:8000", "10.0.0.1:8998", "gpu-01:8998"}},
		{Name: "prefill-1", Texts: []string{"10.0.0.11:8000"}, Addr: "10.0.0.11", Ports: []int{8000, 8998}},
	}
	for line, want := range map[string][]string{
		"to 10.0.0.1:8998 failed":                                  {"prefill-0"},
		"\x1b[31mhttp://gpu-01:8998/route\x1b[0m timed out":        {"prefill-0"},
		"10.0.0.11 and 10.0.0.1:8000":                              {"prefill-0", "prefill-1"},
		"no route to host 10.0.0.11.":                              {"prefill-1"},
		"HTTPConnectionPool(host='10.0.0.11', port=8998): refused": {"prefill-1"},
		"('10.0.0.11', 8998)":                                      {"prefill-1"},
		// Other programs, other hosts.
		"http://10.0.0.11:30000/x": nil, "HTTPConnectionPool(host='10.0.0.11', port=2379)": nil, "('10.0.0.11', 50051)": nil,
		"210.0.0.11": nil, "1.10.0.0.11": nil, "10.0.0.11.5": nil, "10.0.0.111": nil, "10.0.0.11:89981": nil,
		"gpu-01:89980": nil, "login-gpu-01:8998": nil, "10.0.0.1": nil, "nobody": nil,
	} {
		s := NewScanner("sglang", peers...)
		_, _ = s.Write([]byte("KVTransferError: " + line + "\n"))
		m := s.Matches()
		if len(m) != 1 {
			t.Fatalf("%q: matches %+v", line, m)
		}
		if got := slices.Sorted(maps.Keys(m[0].Peers)); !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", line, got, want)
		}
	}
	s := NewScanner("sglang", peers...)
	for _, l := range []string{"KVTransferError: 10.0.0.11", "KVTransferError: 10.0.0.1:8000 and 10.0.0.11", "KVTransferError", "10.0.0.1:8998 in a line that says nothing"} {
		_, _ = s.Write([]byte(l + "\n"))
	}
	m := s.Matches()[0]
	if who, n := m.Peer(); who != "prefill-1" || n != 2 || m.Count != 3 {
		t.Errorf("%s is named on %d of %d lines", who, n, m.Count)
	}
	if who, n := Lines("sglang", []string{"KVTransferError"})[0].Peer(); who != "" || n != 0 {
		t.Errorf("somebody is named: %s, %d", who, n)
	}
}

// TestHide: a secret is taken out of a line before that is cut, wherever it stands.
func TestHide(t *testing.T) {
	t.Parallel()
	const secret = "hf_s3cret"
	for at := maxText - 2*len(secret); at < maxText+len(secret); at++ {
		s := NewScanner("sglang")
		s.Hide = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(secret), []byte("***")) }
		head := "KVTransferError "
		_, _ = s.Write([]byte(head + strings.Repeat("x", at-len(head)) + secret + " and more\n"))
		if text := s.Matches()[0].Text; strings.Contains(text, "hf_") {
			t.Fatalf("at %d: %q", at, text[len(text)-20:])
		}
	}
}
