package engine

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/flags"
)

// shapeFlags are flags that say how KV lies in memory. Decode takes over what
// prefill wrote, byte for byte, so both must be started with the same.
func shapeFlags(engine string) []string {
	if engine == SGLang {
		return []string{"--page-size", "--kv-cache-dtype"}
	}
	return []string{"--block-size", "--kv-cache-dtype"}
}

func checkKVShape(c *checker, rule string) {
	p, ok1 := c.effective(models.RolePrefill)
	d, ok2 := c.effective(models.RoleDecode)
	if !ok1 || !ok2 {
		return
	}
	group := func(l flags.List) map[string]string {
		m := map[string]string{}
		for _, name := range shapeFlags(c.in.Recipe.Engine) {
			if f, set := l.Get(name); set {
				m[name] = f.Value()
			}
		}
		return m
	}
	a, b := group(p), group(d)
	if !maps.Equal(a, b) {
		path := models.RoleDecode + ".flags"
		if len(c.role(models.RoleDecode).Flags) == 0 {
			path = models.RolePrefill + ".flags"
		}
		c.add(rule, Error, path, "give both roles the same",
			"KV lies differently in memory: prefill has %s, decode has %s; decode takes over what prefill wrote, and would refuse or misread it", describe(a), describe(b))
	}
}

func checkSizing(c *checker, rule string) {
	r := c.in.Recipe.KVOffload
	if r == nil {
		return
	}
	if r.Ratio != "" && r.TotalDRAMGB != 0 {
		c.add(rule, Error, "kv_offload", "give one of the two", "both a ratio (%s) and a size (%d GB) are given; the engine takes one", r.Ratio, r.TotalDRAMGB)
	}
	o, _ := c.in.Entry.KVOffload(c.in.Recipe.Engine)
	if o != nil && o.Sizing == catalog.SizingRatio && r.TotalDRAMGB != 0 {
		c.add(rule, Error, "kv_offload.total_dram_gb", "give kv_offload.ratio instead",
			"%s takes a ratio only; an absolute size of %d GB would be misread", c.in.Entry.Name, r.TotalDRAMGB)
	}
}

// memoryShare is the part of a node's memory that KV may take. The rest is for
// the engine's own processes, page cache and the system; pinning more fails.
const memoryShare = 0.8

func checkBudget(c *checker, rule string) {
	node := c.in.Site.NodeMemoryGB
	if node == 0 {
		return
	}
	limit := int(memoryShare * float64(node))
	if r := c.in.Recipe.KVOffload; r != nil && r.TotalDRAMGB > limit {
		c.add(rule, Error, "kv_offload.total_dram_gb", fmt.Sprintf("give at most %d GB", limit),
			"%d GB for KV is more than %d%% of a node's %d GB", r.TotalDRAMGB, int(100*memoryShare), node)
		return
	}
	for _, role := range c.roles() {
		c.checkSize(rule, role, node, limit)
	}
	c.checkRatio(rule, node, limit)
}

// checkSize adds up what the ranks of a node pin, wherever their size is set.
func (c *checker) checkSize(rule, role string, node, limit int) {
	l, _ := c.effective(role)
	flag, set := l.Get("--hicache-size")
	each, err := strconv.Atoi(flag.Value())
	if !set || err != nil {
		return
	}
	ranks, pools := c.ranksOnNode(role), 1
	if r := c.in.Recipe.KVOffload; r != nil {
		pools = max(1, r.HostPools)
	}
	if total := each * ranks * pools; total > limit {
		c.add(rule, Error, role+".flags", fmt.Sprintf("give at most %d GB a rank, or kv_offload.total_dram_gb", limit/ranks/pools),
			"%d GB a rank is %d GB on a node (%d GB × %d ranks × %d pools), more than %d%% of its %d GB", each, total, each, ranks, pools, int(100*memoryShare), node)
	}
}

// checkRatio estimates what a ratio comes to. The device pool of a rank is at
// most the static share of its GPU, weights included, so the estimate is from
// above: beyond the node's memory it is a warning, and an error only where even
// a tenth of it is too much.
func (c *checker) checkRatio(rule string, node, limit int) {
	owner, gpu := c.cacheOwner(), c.in.Site.GPUMemoryGB
	if owner == nil || gpu == 0 {
		return
	}
	l, _ := c.effective(owner.Role)
	flag, set := l.Get("--hicache-ratio")
	ratio, err := strconv.ParseFloat(flag.Value(), 64)
	if !set || err != nil {
		return
	}
	share := 1.0
	if f, ok := l.Get("--mem-fraction-static"); ok {
		if v, err := strconv.ParseFloat(f.Value(), 64); err == nil {
			share = v
		}
	}
	ranks := c.ranksOnNode(owner.Role)
	most := ratio * share * float64(gpu) * float64(ranks)
	severity := Warning
	switch {
	case most <= float64(limit):
		return
	case most/10 > float64(limit):
		severity = Error
	}
	c.add(rule, severity, "kv_offload.ratio", "give a smaller ratio, or kv_offload.total_dram_gb",
		"a ratio of %s is up to %.0f GB on a node (%s × %.2f of a GPU's %d GB × %d ranks), which has %d GB",
		flag.Value(), most, flag.Value(), share, gpu, ranks, node)
}
