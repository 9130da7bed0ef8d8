package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// tierStorage is a store behind host memory; the other tier, L2, is host
// memory alone.
const tierStorage = "L3"

// storageMooncake is the store that tier L3 uses.
const storageMooncake = "mooncake"

// offload is the KV tier in host memory as the run uses it, catalog and recipe
// merged. Nil: none.
type offload struct {
	catalog.KVOffload
	sizeGB int // GB a rank and pool
	from   func(key string) string
	store  bool // Mooncake stands behind it
	master string
	meta   string
	start  bool // the master is ours to start
}

// hicache merges the recipe's KV offload over the catalog's; nil: none asked.
func (c *composer) hicache() *offload {
	r := c.in.Recipe.KVOffload
	if r == nil {
		return nil
	}
	defaults, origin := c.in.Entry.KVOffload(c.in.Recipe.Engine)
	if defaults == nil || r.Backend != "hicache" {
		c.fail("kv_offload.backend", fmt.Sprintf("%s has no KV offload backend %q; it has hicache", c.in.Recipe.Engine, r.Backend), "")
		return nil
	}
	o := &offload{KVOffload: *defaults}
	set := map[string]bool{}
	over := func(key string, isSet bool, put func()) {
		if isSet {
			put()
			set[key] = true
		}
	}
	o.store = strings.EqualFold(r.Tier, tierStorage) || r.Storage != ""
	if o.store && o.StorageMemLayout != "" {
		o.MemLayout = o.StorageMemLayout
	}
	ratioKey := "ratio"
	if c.first(models.RoleAggregate) != nil && o.AggregateRatio != "" {
		o.Ratio, ratioKey = o.AggregateRatio, "aggregate_ratio"
	}
	over("ratio", r.Ratio != "", func() { o.Ratio = r.Ratio })
	over("host_pools", r.HostPools != 0, func() { o.HostPools = r.HostPools })
	over("page_size", r.PageSize != 0, func() { o.PageSize = r.PageSize })
	over("io_backend", r.IOBackend != "", func() { o.IOBackend = r.IOBackend })
	over("mem_layout", r.MemLayout != "", func() { o.MemLayout = r.MemLayout })
	over("write_policy", r.WritePolicy != "", func() { o.WritePolicy = r.WritePolicy })
	over("prefetch_policy", r.PrefetchPolicy != "", func() { o.PrefetchPolicy = r.PrefetchPolicy })
	o.from = func(key string) string {
		if set[key] {
			return c.where("recipe", "kv_offload."+key)
		}
		if key == "ratio" {
			key = ratioKey
		}
		return origin(key)
	}
	if r.TotalDRAMGB != 0 {
		o.sizeGB = c.hicacheSize(o, r)
	}
	if o.store {
		c.mooncake(o, r)
	}
	return o
}

// hicacheSize returns the GB (10^9) that one rank gives to one pool. What is
// left over by rounding down stays free.
func (c *composer) hicacheSize(o *offload, r *models.KVOffload) int {
	w := c.cacheOwner()
	if w == nil {
		return 0
	}
	ranks := c.ranksOnNode(w.Role)
	size := r.TotalDRAMGB / ranks / max(1, o.HostPools)
	if size < 1 {
		c.fail("kv_offload.total_dram_gb", fmt.Sprintf("%d GB shared by %d ranks of a node and %d host pools is less than 1 GB each",
			r.TotalDRAMGB, ranks, max(1, o.HostPools)), fmt.Sprintf("give at least %d GB, or a ratio", ranks*max(1, o.HostPools)))
	}
	return size
}

// cacheOwner returns the first worker whose KV cache has the host tier.
func (c *composer) cacheOwner() *models.Worker {
	if w := c.first(models.RolePrefill); w != nil {
		return w
	}
	return c.first(models.RoleAggregate)
}

// ranksOnNode returns how many ranks of a role share the memory of one node, at
// most: those of all its workers there.
func (c *composer) ranksOnNode(role string) int {
	on := map[int]int{}
	most := 1
	for _, w := range c.in.Layout {
		for _, r := range w.Ranks {
			node := r.Node
			if c.in.Launcher == models.LauncherLocal {
				node = 0 // all of them are this host
			}
			if w.Role == role {
				on[node] += len(r.GPUs)
				most = max(most, on[node])
			}
		}
	}
	return most
}

// worker puts in the flags of the host tier. It belongs to the workers that
// compute prefixes; decode gets the page size only, which must agree.
func (o *offload) worker(c *composer, d *draft, w *models.Worker) {
	if o == nil {
		return
	}
	d.args.Drop("--disable-radix-cache")
	d.flag(o.from("page_size"), "--page-size", strconv.Itoa(o.PageSize))
	if w.Role == models.RoleDecode {
		return
	}
	d.flag(c.where("recipe", "kv_offload"), "--enable-hierarchical-cache")
	if o.sizeGB > 0 {
		d.flag(c.where("recipe", "kv_offload.total_dram_gb"), "--hicache-size", strconv.Itoa(o.sizeGB))
	} else {
		d.flag(o.from("ratio"), "--hicache-ratio", o.Ratio)
	}
	d.flag(o.from("io_backend"), "--hicache-io-backend", o.IOBackend)
	d.flag(o.from("mem_layout"), "--hicache-mem-layout", o.MemLayout)
	d.flag(o.from("write_policy"), "--hicache-write-policy", o.WritePolicy)
	if w.Role != models.RoleAggregate || o.store {
		d.flag(o.from("prefetch_policy"), "--hicache-storage-prefetch-policy", o.PrefetchPolicy)
	}
	if o.store {
		d.flag(c.where("recipe", "kv_offload.tier"), "--hicache-storage-backend", storageMooncake)
		d.flag(adapter, "--hicache-storage-backend-extra-config", o.extraConfig())
		d.flag(adapter, "--enable-metrics")
		d.flag(adapter, "--enable-cache-report")
	}
}

// extraConfig tells the engine where its store is.
func (o *offload) extraConfig() string {
	device := o.Mooncake.Device
	if device == "" {
		device = "@{self.rdma}"
	}
	// A struct, so that the keys keep their order; all values are texts, so
	// encoding cannot fail.
	b, _ := json.Marshal(struct {
		Master   string `json:"master_server_address"`
		Protocol string `json:"protocol"`
		Device   string `json:"device_name"`
		Local    string `json:"local_hostname"`
		Segment  string `json:"global_segment_size"`
		Metadata string `json:"metadata_server"`
		Check    bool   `json:"check_server"`
	}{o.master, o.Mooncake.Protocol, device, "@{self.addr}", o.Mooncake.GlobalSegment, o.meta, false})
	return string(b)
}
