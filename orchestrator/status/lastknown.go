package status

import "time"

// unknown is the state of what nobody tells of any more.
const unknown = "unknown"

// LastKnown turns a summary that was made at now into what was known at the last
// event, for a run whose controller says nothing any more: the clocks stop there,
// and what went on then is not said to go on still.
func (s *Summary) LastKnown(now time.Time) {
	late := max(now.Sub(s.LastSeen), 0)
	s.Elapsed = max(s.Elapsed-late, 0)
	s.InStage = max(s.InStage-late, 0)
	for i := range s.Stages {
		if st := &s.Stages[i]; st.Status == "running" {
			st.Status, st.Seconds = unknown, s.InStage.Seconds()
		}
	}
	for i := range s.Processes {
		p := &s.Processes[i]
		p.Since = max(p.Since-late, 0)
		if p.State != "exited" && p.State != "gone" {
			p.Was, p.State = p.State, unknown
		}
	}
}
