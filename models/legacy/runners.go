package legacy

import (
	"math/big"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// host is what the runners file says of the nodes behind a label.
type host struct {
	MemoryMiB int `yaml:"available-cpu-dram-mib" min:"1"`
	GPUs      int `yaml:"gpus-per-node" min:"1"`
}

// runnersFile is the sweep repository's file of runners.
type runnersFile struct {
	Labels   map[string][]string `yaml:"labels"`
	Hardware map[string]host     `yaml:"hardware,omitempty"`
}

func (im *importer) runners() map[string]host {
	if im.src.Runners == nil {
		return nil
	}
	doc := yamlx.ParseForeign(im.src.Runners.Path, im.src.Runners.Data)
	var f runnersFile
	doc.Decode(&f)
	doc.Check(&f, models.Formats())
	if err := doc.Err(); err != nil {
		im.take(err)
		return nil
	}
	return f.Hardware
}

// mostMiB is what the sweep counted of a node's memory at most: 3 TB.
const mostMiB = 2861022

// budget is the host memory in GB (10^9 bytes) that a node's workers may use
// for KV: its share, by GPUs, of what the sweep lets be used. Zero: not known.
func (r *row) budget(hosts map[string]host, gpus, least int) int {
	h, ok := hosts[r.config.Runner]
	if !ok || r.traces == nil || r.traces.Utilization == nil || r.Offloading != "dram" {
		return 0
	}
	share, ok := new(big.Rat).SetString(string(*r.traces.Utilization))
	if !ok {
		return 0
	}
	bytes := new(big.Rat).SetInt64(int64(min(h.MemoryMiB, mostMiB)) << 20)
	bytes.Mul(bytes, share)
	bytes.Mul(bytes, big.NewRat(int64(min(gpus, h.GPUs)), int64(h.GPUs)*1e9))
	gb := new(big.Int).Quo(bytes.Num(), bytes.Denom())
	return max(least, int(gb.Int64()))
}
