package status

import "encoding/json"

// MarshalJSON gives times in seconds, as stages have them.
func (s Summary) MarshalJSON() ([]byte, error) {
	type fields Summary
	return json.Marshal(struct {
		fields
		InStage float64 `json:"in_stage_seconds,omitempty"`
		Elapsed float64 `json:"elapsed_seconds,omitempty"`
	}{fields(s), s.InStage.Seconds(), s.Elapsed.Seconds()})
}

// MarshalJSON gives times in seconds.
func (p Process) MarshalJSON() ([]byte, error) {
	type fields Process
	return json.Marshal(struct {
		fields
		Since float64 `json:"since_seconds"`
	}{fields(p), p.Since.Seconds()})
}
