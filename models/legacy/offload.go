package legacy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// offload reads the KV tier in host memory.
func (c *converter) offload() {
	mode, backend := c.get("KV_OFFLOADING", "none"), c.get("KV_OFFLOAD_BACKEND", "")
	switch {
	case mode == "none":
		return
	case backend == "":
		c.note("KV_OFFLOADING", fmt.Sprintf("%s without a KV_OFFLOAD_BACKEND did nothing", mode), "set KV_OFFLOAD_BACKEND=hicache")
		return
	case backend != "hicache":
		c.fail("KV_OFFLOAD_BACKEND", fmt.Sprintf("there is no backend %q here; the scripts ignored what they did not know", backend), "backends: hicache")
		return
	}
	o := &models.KVOffload{
		Backend: backend, Ratio: c.decimal("HICACHE_RATIO"), HostPools: c.number("HICACHE_HOST_POOL_COUNT", 0, 1), PageSize: c.number("HICACHE_PAGE_SIZE", 0, 1),
		IOBackend: c.word("HICACHE_IO_BACKEND", ""), MemLayout: c.word("HICACHE_MEM_LAYOUT", ""), WritePolicy: c.word("HICACHE_WRITE_POLICY", ""),
		PrefetchPolicy: c.word("HICACHE_PREFETCH_POLICY", ""), Storage: c.word("HICACHE_STORAGE_BACKEND", ""),
	}
	if o.Storage != "" {
		o.Tier, o.Mooncake = "L3", c.mooncake()
	}
	c.recipe.KVOffload = o
	// The budget comes with every run; the scripts took the ratio all the same
	// when told to, and for models that take no absolute size.
	budget := c.get("TOTAL_CPU_DRAM_GB", "")
	if c.get("FORCE_HICACHE_RATIO", "") == "1" || c.ratioOnly() {
		return
	}
	if n, err := strconv.Atoi(budget); err == nil && n > 0 {
		o.TotalDRAMGB, o.Ratio = n, ""
	} else if budget != "" && budget != "0" {
		c.note("TOTAL_CPU_DRAM_GB", fmt.Sprintf("%q is not a whole number of GB, so the ratio counts", budget), "")
	}
}

// ratioOnly says whether the model takes no absolute size of the host pool.
func (c *converter) ratioOnly() bool {
	if c.entry == nil {
		return false
	}
	o, _ := c.entry.KVOffload("sglang")
	return o != nil && o.Sizing == catalog.SizingRatio
}

// mooncake reads the store behind host memory.
func (c *converter) mooncake() *models.MooncakeSpec {
	m := &models.MooncakeSpec{
		MasterPort: c.number("MC_MASTER_PORT", 0, 1), MetadataPort: c.number("MC_METADATA_PORT", 0, 1), MetricsPort: c.number("MC_METRICS_PORT", 0, 1),
		Threads: c.number("MC_MASTER_THREADS", 0, 1), HighWatermark: c.decimal("MC_EVICTION_HIGH_WATERMARK"), Protocol: c.word("MC_PROTOCOL", ""),
		GlobalSegment: c.word("MC_GLOBAL_SEG", ""), Device: c.word("MC_DEVICE", ""), MasterAddr: c.word("MC_MASTER_ADDR", ""), MetadataURL: c.word("MC_METADATA_SERVER", ""),
	}
	if *m == (models.MooncakeSpec{}) {
		return nil
	}
	return m
}

// decimal reads a number as written; the scripts had a shell run the text.
func (c *converter) decimal(name string) string {
	v := c.get(name, "")
	if v != "" && (strings.Trim(v, "0123456789.") != "" || strings.Count(v, ".") > 1) {
		c.fail(name, fmt.Sprintf("%q is not a number", v), "")
		return ""
	}
	return v
}
