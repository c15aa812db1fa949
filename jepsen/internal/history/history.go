// Package history holds what clients did and saw, as lines of JSON.
//
// An operation is ok (it happened between invoke and return), fail (it never happens), or info: its
// outcome is unknown, and it may happen at any time after its invocation, also after the run.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"sync"
	"time"
)

type Kind string

const (
	OK   Kind = "ok"
	Fail Kind = "fail"
	Info Kind = "info"
)

// Open is the return time of an operation without a known outcome.
const Open = math.MaxInt64

// Op is one operation of a client. The fields after Type are arguments and results; each workload
// says which of them it uses.
type Op struct {
	Process int    `json:"process"`
	F       string `json:"f"`
	Key     string `json:"key,omitempty"`
	Node    string `json:"node,omitempty"`
	Invoke  int64  `json:"invoke"`           // ns since the run began
	Return  int64  `json:"return,omitempty"` // ns; Open: never
	Type    Kind   `json:"type"`

	Arg     int64    `json:"arg,omitempty"`
	CAS     *int64   `json:"cas,omitempty"`
	Value   int64    `json:"value,omitempty"`
	Version int64    `json:"version,omitempty"`
	Values  []int64  `json:"values,omitempty"`
	Names   []string `json:"names,omitempty"`
	Text    string   `json:"text,omitempty"`
	Final   bool     `json:"final,omitempty"` // after all faults, on each node
	Status  int      `json:"status,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func (o *Op) String() string {
	text, _ := json.Marshal(o)
	return string(text)
}

// Before says whether o returned before p was invoked.
func (o *Op) Before(p *Op) bool { return o.Return < p.Invoke }

// Fault is a time in which a nemesis did harm.
type Fault struct {
	Fault  string `json:"fault"` // name of the nemesis
	What   string `json:"what"`
	Start  int64  `json:"start"`
	Undone int64  `json:"undone"`
	End    int64  `json:"end"` // the nodes whose processes were ended are back
}

// History is a whole run.
type History struct {
	Ops    []*Op
	Faults []Fault
}

// Recorder collects a history from many goroutines.
type Recorder struct {
	began time.Time
	mu    sync.Mutex
	h     History
}

func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Now is the time of the run, by the monotonic clock.
func (r *Recorder) Now() int64 { return int64(time.Since(r.began)) }

// At is the time of the run at which the wall clock shows t, if nobody set it.
func (r *Recorder) At(t time.Time) int64 { return int64(t.Sub(r.began.Round(0))) }

func (r *Recorder) Add(o *Op) {
	r.mu.Lock()
	r.h.Ops = append(r.h.Ops, o)
	r.mu.Unlock()
}

func (r *Recorder) AddFault(f Fault) {
	r.mu.Lock()
	r.h.Faults = append(r.h.Faults, f)
	r.mu.Unlock()
}

// Count of operations so far with a known good outcome.
func (r *Recorder) Count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.h.Ops {
		if o.Type == OK {
			n++
		}
	}
	return n
}

// History is a copy of what there is, in the order of invocation.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{Ops: append([]*Op(nil), r.h.Ops...), Faults: append([]Fault(nil), r.h.Faults...)}
	h.sort()
	return h
}

func (h *History) sort() {
	sort.SliceStable(h.Ops, func(i, j int) bool { return h.Ops[i].Invoke < h.Ops[j].Invoke })
}

// Write the history as lines of JSON.
func (h *History) Write(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	lines := json.NewEncoder(w)
	for _, fault := range h.Faults {
		if err := lines.Encode(fault); err != nil {
			return err
		}
	}
	for _, o := range h.Ops {
		if err := lines.Encode(o); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// Read what Write wrote.
func Read(file string) (*History, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := &History{}
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 64<<20)
	for n := 1; scan.Scan(); n++ {
		line := struct {
			Op
			Fault
		}{}
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if line.Fault.Fault != "" {
			h.Faults = append(h.Faults, line.Fault)
			continue
		}
		o := line.Op
		h.Ops = append(h.Ops, &o)
	}
	h.sort()
	return h, scan.Err()
}
