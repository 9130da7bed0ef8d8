package signature

import "strings"

// window is how many bytes of a text the filter looks for.
const window = 4

// filter tells quickly that none of many texts is in a line. Of each text it knows
// one window of four bytes, by its hash; most lines of a log have none of them.
type filter struct {
	bits  [1 << 10]uint64
	short bool // a text is shorter than a window: everything may match
}

func newFilter(texts [][]byte) *filter {
	f := &filter{}
	for _, t := range texts {
		if len(t) < window {
			f.short = true
			continue
		}
		h := hash(rarest(t))
		f.bits[h>>6] |= 1 << (h & 63)
	}
	return f
}

// maybe is false when surely none of the texts is in the line.
func (f *filter) maybe(line []byte) bool {
	if f.short {
		return true
	}
	if len(line) < window {
		return false
	}
	w := uint32(line[0])<<16 | uint32(line[1])<<8 | uint32(line[2])
	for _, c := range line[window-1:] {
		w = w<<8 | uint32(c)
		if h := hash(w); f.bits[h>>6]&(1<<(h&63)) != 0 {
			return true
		}
	}
	return false
}

func hash(w uint32) uint32 { return w * 2654435761 >> 16 }

// rarest is the window of a text that ordinary lines are least likely to have.
func rarest(t []byte) uint32 {
	best, score := uint32(0), -1
	for i := range len(t) - window + 1 {
		w, s := uint32(0), 0
		for _, c := range t[i : i+window] {
			w = w<<8 | uint32(c)
			s += rarity(c)
		}
		if strings.Contains(ordinary, string(t[i:i+window])) {
			s = 0
		}
		if s > score {
			best, score = w, s
		}
	}
	return best
}

// ordinary is what engines and routers write when all is well.
const ordinary = `[2026-01-01 10:00:01 TP0] Load weight begin. avail mem=280.44 GB Load weight end. type=Model, dtype=torch.bfloat16
Loading safetensors checkpoint shards: 100% Completed | 163/163 [01:02<00:00,  2.61it/s] Memory pool end. KV Cache is allocated.
Prefill batch. #new-seq: 1, #new-token: 1024, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, input throughput (token/s): 812.1
Decode batch. #running-req: 12, #token: 40231, token usage: 0.02, gen throughput (token/s): 803.17, cuda graph: True, #queue-req: 0, #transferring-req: 0
INFO:     10.0.0.1:4411 - "POST /v1/chat/completions HTTP/1.1" 200 OK "GET /health HTTP/1.1" "GET /metrics HTTP/1.1" "GET /v1/models HTTP/1.1"
(EngineCore pid=7) INFO 01-01 10:00:01 [loggers.py:118] Engine 000: Avg prompt throughput: 1024.0 tokens/s, Avg generation throughput: 99.9 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%, Prefix cache hit rate: 0.0%
Activated worker http://10.0.0.1:8000 request routed to prefill worker, decode worker; through, request_id=`

// rarity is how seldom a byte is in log lines, roughly.
func rarity(c byte) int {
	switch {
	case c == ' ' || c == 'e' || c == 't' || c == 'a' || c == 'o' || c == 'i' || c == 'n' || c == 'r' || c == 's':
		return 0
	case c >= '0' && c <= '9' || c == '.' || c == ':' || c == '-' || c == '=' || c == ',' || c == '#':
		return 1
	case c >= 'a' && c <= 'z':
		return 2
	case c >= 'A' && c <= 'Z' || c == '_':
		return 3
	}
	return 4
}
