package parse

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
)

// WeightIndex is model.safetensors.index.json.
type WeightIndex struct {
	TotalSize int64    // bytes of all tensors; 0 where not stated
	Shards    []string // sorted, each once
}

// SafetensorsIndex reads the index of a sharded model.
func SafetensorsIndex(data []byte) (*WeightIndex, error) {
	var doc struct {
		Metadata struct {
			TotalSize json.Number `json:"total_size"`
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("read weight index: %w", err)
	}
	if len(doc.WeightMap) == 0 {
		return nil, errors.New("read weight index: it lists no tensors")
	}
	idx := &WeightIndex{}
	if f, err := doc.Metadata.TotalSize.Float64(); err == nil && f > 0 && f < 1<<60 {
		idx.TotalSize = int64(f)
	}
	seen := map[string]bool{}
	for _, shard := range doc.WeightMap {
		if !seen[shard] {
			seen[shard] = true
			idx.Shards = append(idx.Shards, shard)
		}
	}
	sort.Strings(idx.Shards)
	return idx, nil
}

// maxHeader bounds a safetensors header; the format's own limit is the same.
const maxHeader = 100 << 20

// SafetensorsHeader reads the length field at the beginning of a safetensors
// file: how long the JSON header is. ok is false where it cannot be one.
func SafetensorsHeader(head []byte) (length int64, ok bool) {
	if len(head) < 9 {
		return 0, false
	}
	n := binary.LittleEndian.Uint64(head)
	return int64(n), n > 1 && n <= maxHeader && head[8] == '{'
}

// SafetensorsSize reads a whole header: how long the file must be in bytes.
func SafetensorsSize(head []byte) (size int64, err error) {
	n, ok := SafetensorsHeader(head)
	if !ok {
		return 0, errors.New("read safetensors header: it does not begin like one")
	}
	if int64(len(head)) < 8+n {
		return 0, errors.New("read safetensors header: it is longer than what was read")
	}
	var tensors map[string]struct {
		Offsets []int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(head[8:8+n], &tensors); err != nil {
		return 0, fmt.Errorf("read safetensors header: %w", err)
	}
	var end int64
	for _, t := range tensors {
		if len(t.Offsets) == 2 {
			end = max(end, t.Offsets[1])
		}
	}
	return 8 + n + end, nil
}

// PointerFile says that the content is the text that stands for a large file
// that was never fetched.
func PointerFile(head []byte) bool {
	return bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/"))
}
