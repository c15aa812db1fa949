package main

import (
	"fmt"
	"math/rand"
	"os"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"holdfast/jepsen/internal/nemesis"
	"holdfast/jepsen/internal/runner"
	"holdfast/jepsen/internal/workload"
)

// endless is what runs of jepsen/forever share.
type endless struct {
	o       *options
	mu      sync.Mutex
	next    int64
	running map[string]bool // folders
	rows    []row
	until   time.Time // zero: never
	over    bool
}

// foreverCommand goes on until it is stopped, by a signal or by time. What runs then is given up: its
// namespaces end with this process.
func foreverCommand(args []string) error {
	o, err := parse(append([]string{"--suite", "forever"}, args...))
	if err != nil {
		return err
	}
	e := &endless{o: o, running: map[string]bool{}}
	if o.hours > 0 {
		e.until = time.Now().Add(time.Duration(o.hours * float64(time.Hour)))
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	fmt.Printf("seed %d\n", o.plan.Seed)
	done := make(chan struct{})
	var all sync.WaitGroup
	for range o.jobs {
		all.Add(1)
		go func() {
			runtime.LockOSThread() // a run ends with the thread that started it
			defer runtime.UnlockOSThread()
			defer all.Done()
			for e.one() {
			}
		}()
	}
	go func() { all.Wait(); close(done) }()
	select {
	case <-stop:
	case <-done:
	}
	return e.end()
}

// draw a workload and one or two nemeses; the seed decides.
func draw(p runner.Plan) runner.Plan {
	r := rand.New(rand.NewSource(p.Seed))
	w := workload.All[r.Intn(len(workload.All))]
	p.Workload = w.Name
	p.Nemeses = nil
	for range 1 + r.Intn(2) {
		n := nemesis.All[r.Intn(len(nemesis.All))]
		if n.Name != "none" && runner.Unfit(w, n) == "" && (len(p.Nemeses) == 0 || p.Nemeses[0] != n.Name) {
			p.Nemeses = append(p.Nemeses, n.Name)
		}
	}
	if len(p.Nemeses) == 0 {
		p.Nemeses = []string{"kill"}
	}
	return p
}

// one run with the next seed; false when the time is over.
func (e *endless) one() bool {
	e.mu.Lock()
	if e.over || (!e.until.IsZero() && time.Now().After(e.until)) {
		e.mu.Unlock()
		return false
	}
	p := e.o.plan
	p.Seed += e.next
	e.next++
	p = draw(p)
	dir := e.o.dir(p)
	e.running[dir] = true
	e.mu.Unlock()
	r := runRow(e.o, p)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return false
	}
	delete(e.running, dir)
	e.rows = append(e.rows, r)
	r.print(os.Stdout)
	if r.findings() == 0 {
		_ = os.RemoveAll(dir) // nothing to look into
	}
	return true
}

// end prints the table, and removes the folders of runs that did not end.
func (e *endless) end() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	for dir := range e.running {
		_ = os.RemoveAll(dir)
	}
	type sum struct{ runs, operations, faults, failed int }
	sums := map[string]*sum{}
	for _, r := range e.rows {
		name := r.plan.Workload + " " + strings.Join(r.plan.Nemeses, "+")
		if sums[name] == nil {
			sums[name] = &sum{}
		}
		s := sums[name]
		s.runs++
		if r.result != nil {
			s.operations += r.result.Operations
			s.faults += r.result.Faults
		}
		if r.findings() > 0 {
			s.failed++
		}
	}
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Printf("\n%-40s %6s %12s %8s %8s\n", "", "runs", "operations", "faults", "failed")
	for _, name := range names {
		s := sums[name]
		fmt.Printf("%-40s %6d %12d %8d %8d\n", name, s.runs, s.operations, s.faults, s.failed)
	}
	for _, r := range e.rows {
		if r.findings() > 0 {
			fmt.Printf("failed: %s\n", r.plan.Command())
		}
	}
	return total(e.rows)
}
