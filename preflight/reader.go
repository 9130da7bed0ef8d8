package preflight

// readList is what a helper is asked to read.
type readList struct {
	Patterns []string `json:"patterns"`
}
