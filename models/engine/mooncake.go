package engine

import (
	"fmt"
	"strconv"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// mooncake settles where the Mooncake master is: an existing one, or one that
// runs beside the first worker.
func (c *composer) mooncake(o *offload, r *models.KVOffload) {
	if r.Storage != "" && r.Storage != storageMooncake {
		c.fail("kv_offload.storage", fmt.Sprintf("there is no store %q for KV; write mooncake", r.Storage), "")
	}
	m := models.MooncakeSpec{}
	if o.Mooncake != nil {
		m = *o.Mooncake
	}
	if r.Mooncake != nil {
		catalog.Over(&m, r.Mooncake)
	}
	o.Mooncake = &m
	o.start = m.MasterAddr == ""
	o.master = firstText(m.MasterAddr, fmt.Sprintf("%s:%d", addr(0), m.MasterPort))
	o.meta = firstText(m.MetadataURL, fmt.Sprintf("http://%s:%d/metadata", addr(0), m.MetadataPort))
}

// mooncakeMaster composes the master as a service beside the first worker.
func (c *composer) mooncakeMaster(o *offload) {
	if o == nil || !o.store || !o.start {
		return
	}
	m := o.Mooncake
	n := strconv.Itoa
	words := []string{"mooncake_master",
		"--enable_http_metadata_server=true",
		"--http_metadata_server_host=0.0.0.0",
		"--http_metadata_server_port=" + n(m.MetadataPort),
		"--rpc_port=" + n(m.MasterPort),
		"--rpc_thread_num=" + n(m.Threads),
		"--metrics_port=" + n(m.MetricsPort),
		"--enable_metric_reporting=true",
		"--eviction_high_watermark_ratio=" + m.HighWatermark,
	}
	c.out.Services = append(c.out.Services, models.Process{
		ID: "mooncake-master", Scope: "service", Node: 0,
		Image: firstText(m.Image, c.in.Recipe.Image), Argv: words, Env: []models.EnvVar{},
		Ports: []models.Port{{Name: "rpc", Number: m.MasterPort}, {Name: "metadata", Number: m.MetadataPort}, {Name: "metrics", Number: m.MetricsPort}},
	})
}
