package catalog

import (
	"slices"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/flags"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// Entry is what the catalog knows of one model: its file joined with what the
// file extends and with what the engines' files say.
type Entry struct {
	Name       string
	File       string // the model's own file
	Dirs       []string
	Limits     Limits
	Acceptance map[string]string

	// parts are the shares of each file, by engine, the most basic first.
	parts map[string][]part
	// known are the flags that the whole catalog has, by engine.
	known map[string]knownFlags
}

// Engines returns the engines that the model has settings for, sorted.
func (e *Entry) Engines() []string { return sortedKeys(e.parts) }

// Has says whether the model has settings for an engine.
func (e *Entry) Has(engine string) bool { return len(e.parts[engine]) > 0 }

// Value is one effective setting.
type Value struct {
	Text string
	// From says who set it, as models.Origin.From; empty: nobody.
	From string
	// Over is what it replaced, nearest first, as "origin=value".
	Over []string
}

// Set replaces the value and remembers what was there.
func (v *Value) Set(text, from string) {
	over := v.Over
	if v.From != "" {
		over = append([]string{v.From + "=" + v.Text}, over...)
	}
	*v = Value{Text: text, From: from, Over: over}
}

// IsSet says whether anybody set the value.
func (v Value) IsSet() bool { return v.From != "" }

// Settings are the catalog's settings for one worker (or the router, or the
// client). Texts may hold formulas; see Formulas.
type Settings struct {
	Flags   flags.List
	Env     map[string]Value
	Prepend map[string]Value
	Vars    map[string]Value

	MemFraction        Value
	MaxRunningRequests Value
	ChunkedPrefillSize Value
	ContextLength      Value
	PageSize           Value
	CudaGraphMax       Value
	CudaGraphs         Value
}

// Settings returns what the layers set in a mode.
func (e *Entry) Settings(engine string, m Mode) Settings {
	s := Settings{Env: map[string]Value{}, Prepend: map[string]Value{}, Vars: map[string]Value{}}
	for _, p := range e.parts[engine] {
		for i, l := range p.engine.Layers {
			if l.When.holds(m) {
				s.apply(l, func(key string) string { return p.node.origin(yamlx.Index(p.key("layers"), i) + "." + key) })
			}
		}
	}
	return s
}

// apply puts one layer over the settings.
func (s *Settings) apply(l Layer, origin func(key string) string) {
	for _, name := range l.Drop {
		s.Flags.Drop(name)
	}
	for i, text := range l.Flags {
		// A text that is no flag was refused when the file was read.
		if f, err := flags.Parse(text); err == nil {
			f.From = origin(yamlx.Index("flags", i))
			s.Flags.Set(f)
		}
	}
	for _, name := range l.Unset {
		delete(s.Env, name)
		delete(s.Prepend, name)
	}
	for name, v := range l.Env {
		put(s.Env, name, v.Value, origin(yamlx.Key("env", name)))
	}
	for name, v := range l.Prepend {
		put(s.Prepend, name, v, origin(yamlx.Key("prepend", name)))
	}
	for name, v := range l.Vars {
		put(s.Vars, name, v, origin(yamlx.Key("vars", name)))
	}
	for _, f := range s.numbers(&l) {
		if f.text != "" {
			f.value.Set(f.text, origin(f.key))
		}
	}
}

// number is one typed setting of a layer and where it goes.
type number struct {
	key, text string
	value     *Value
}

func (s *Settings) numbers(l *Layer) []number {
	return []number{
		{"mem_fraction", l.MemFraction, &s.MemFraction},
		{"max_running_requests", l.MaxRunningRequests, &s.MaxRunningRequests},
		{"chunked_prefill_size", l.ChunkedPrefillSize, &s.ChunkedPrefillSize},
		{"context_length", l.ContextLength, &s.ContextLength},
		{"page_size", l.PageSize, &s.PageSize},
		{"cuda_graph_max", l.CudaGraphMax, &s.CudaGraphMax},
		{"cuda_graphs", l.CudaGraphs, &s.CudaGraphs},
	}
}

func put(m map[string]Value, name, text, from string) {
	v := m[name]
	v.Set(text, from)
	m[name] = v
}

// Transfer returns the backend that moves KV from prefill to decode.
func (e *Entry) Transfer(engine string) Value {
	var v Value
	for _, p := range e.parts[engine] {
		if p.engine.Transfer != "" {
			v.Set(p.engine.Transfer, p.node.origin(p.key("transfer")))
		}
	}
	return v
}

// MixedTP says whether prefill and decode of different tensor parallel size are
// known to work over a transfer backend.
func (e *Entry) MixedTP(engine, transfer string) bool {
	for _, p := range slices.Backward(e.parts[engine]) {
		if p.engine.MixedTP != nil {
			return slices.Contains(p.engine.MixedTP, transfer)
		}
	}
	return false
}

// DecodeRestart returns the transfer backends over which a decode worker may be
// started again while the others run on; none: it is not known of any.
func (e *Entry) DecodeRestart(engine string) []string {
	for _, p := range slices.Backward(e.parts[engine]) {
		if p.engine.DecodeRestart != nil {
			return p.engine.DecodeRestart
		}
	}
	return nil
}

// Shell returns how the engine's program is started, as Recipe.Shell.
func (e *Entry) Shell(engine string) string {
	shell := ""
	for _, p := range e.parts[engine] {
		shell = firstNonZero(p.engine.Shell, shell)
	}
	return shell
}

// Speculative returns how multi-token prediction is asked for, or nil when the
// model does not have it on that engine, and where that is said.
func (e *Entry) Speculative(engine string) (*Speculative, string) {
	for _, p := range slices.Backward(e.parts[engine]) {
		if p.engine.Speculative != nil {
			return p.engine.Speculative, p.node.origin(p.key("speculative"))
		}
	}
	return nil, ""
}

// KVOffload returns the defaults of the KV tier in host memory, or nil when
// the engine has none, and a function that says where a key of it is set.
func (e *Entry) KVOffload(engine string) (*KVOffload, func(key string) string) {
	var o *KVOffload
	for _, p := range e.parts[engine] {
		if p.engine.KVOffload != nil {
			if o == nil {
				o = &KVOffload{}
			}
			o.over(p.engine.KVOffload)
		}
	}
	return o, func(key string) string {
		for _, p := range slices.Backward(e.parts[engine]) {
			if at := p.key("kv_offload." + key); p.node.doc.Positions.Has(at) {
				return p.node.origin(at)
			}
		}
		return ""
	}
}

// over puts what is set in p over o.
func (o *KVOffload) over(p *KVOffload) {
	o.Sizing = firstNonZero(p.Sizing, o.Sizing)
	o.Ratio = firstNonZero(p.Ratio, o.Ratio)
	o.AggregateRatio = firstNonZero(p.AggregateRatio, o.AggregateRatio)
	o.HostPools = firstNonZero(p.HostPools, o.HostPools)
	o.PageSize = firstNonZero(p.PageSize, o.PageSize)
	o.IOBackend = firstNonZero(p.IOBackend, o.IOBackend)
	o.MemLayout = firstNonZero(p.MemLayout, o.MemLayout)
	o.StorageMemLayout = firstNonZero(p.StorageMemLayout, o.StorageMemLayout)
	o.WritePolicy = firstNonZero(p.WritePolicy, o.WritePolicy)
	o.PrefetchPolicy = firstNonZero(p.PrefetchPolicy, o.PrefetchPolicy)
	if p.Mooncake != nil {
		merged := models.MooncakeSpec{}
		if o.Mooncake != nil {
			merged = *o.Mooncake
		}
		Over(&merged, p.Mooncake)
		o.Mooncake = &merged
	}
}

// Over puts what is set in src over dst.
func Over(dst, src *models.MooncakeSpec) {
	dst.MasterPort = firstNonZero(src.MasterPort, dst.MasterPort)
	dst.MetadataPort = firstNonZero(src.MetadataPort, dst.MetadataPort)
	dst.MetricsPort = firstNonZero(src.MetricsPort, dst.MetricsPort)
	dst.Threads = firstNonZero(src.Threads, dst.Threads)
	dst.HighWatermark = firstNonZero(src.HighWatermark, dst.HighWatermark)
	dst.Protocol = firstNonZero(src.Protocol, dst.Protocol)
	dst.GlobalSegment = firstNonZero(src.GlobalSegment, dst.GlobalSegment)
	dst.Device = firstNonZero(src.Device, dst.Device)
	dst.MasterAddr = firstNonZero(src.MasterAddr, dst.MasterAddr)
	dst.MetadataURL = firstNonZero(src.MetadataURL, dst.MetadataURL)
	dst.Image = firstNonZero(src.Image, dst.Image)
}
