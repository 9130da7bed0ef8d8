package signature

import "bytes"

// phaseMark is a text that an engine prints when it begins a phase.
type phaseMark struct {
	text  []byte
	phase Phase
}

func phaseMarks() []phaseMark {
	return []phaseMark{
		{[]byte("Load weight begin"), PhaseLoad}, // sglang
		{[]byte("Starting to load model"), PhaseLoad},
		{[]byte("Loading safetensors checkpoint"), PhaseLoad},
		{[]byte("Capture cuda graph begin"), PhaseCapture}, // sglang
		{[]byte("Capture draft"), PhaseCapture},            // sglang, speculative decoding
		{[]byte("Capturing CUDA graph"), PhaseCapture},     // vllm, atom
		{[]byte("fired up and ready to roll"), PhaseServe}, // sglang
		{[]byte("Application startup complete"), PhaseServe},
	}
}

// phaseOf tells which phase a line begins, if any.
func phaseOf(line []byte, marks []phaseMark) (Phase, bool) {
	for _, m := range marks {
		if bytes.Contains(line, m.text) {
			return m.phase, true
		}
	}
	return "", false
}
