package deploy

import (
	"sync"
	"time"
)

// drainLimit is how long closing waits for a reader to take the last events.
const drainLimit = time.Second

// eventQueue hands events on in order without ever making the connection wait
// for the reader.
type eventQueue struct {
	to chan<- Event

	mu      sync.Mutex
	waiting []Event
	idle    chan struct{} // closed when nothing waits; nil: nothing does
	quit    chan struct{}
	closed  bool
}

func newEventQueue(to chan<- Event) *eventQueue {
	return &eventQueue{to: to, quit: make(chan struct{})}
}

// put appends an event. Of a workload's progress only the newest waits.
func (q *eventQueue) put(e Event) {
	if q.to == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if n := len(q.waiting); e.Kind == EventProgress && n > 0 {
		if last := &q.waiting[n-1]; last.Kind == EventProgress && last.Workload == e.Workload {
			*last = e
			return
		}
	}
	q.waiting = append(q.waiting, e)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
}

// run hands over until nothing waits.
func (q *eventQueue) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			close(q.idle)
			q.waiting, q.idle = nil, nil
			q.mu.Unlock()
			return
		}
		e := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		select {
		case q.to <- e:
		case <-q.quit:
		}
	}
}

// close lets the reader take what waits, for a moment, and drops the rest.
func (q *eventQueue) close() {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.closed = true
	idle := q.idle
	q.mu.Unlock()
	defer close(q.quit)
	if idle == nil {
		return
	}
	t := time.NewTimer(drainLimit)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}
