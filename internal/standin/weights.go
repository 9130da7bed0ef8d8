package standin

import "encoding/binary"

// Weights is the smallest file of weights that is whole: one tensor of one byte.
func Weights() []byte {
	const header = `{"stand-in":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), 0)
}
