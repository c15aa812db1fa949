package main

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"holdfast/jepsen/internal/nemesis"
	"holdfast/jepsen/internal/runner"
	"holdfast/jepsen/internal/workload"
)

// foundRows have found a fault of the program (FOUND.md): they run in each slice.
var foundRows = []string{
	"register isolate+kill",
	"register replace",
}

// quickRows: each other workload with the faults that are most likely to hurt it.
var quickRows = []string{
	"dr kill+isolate", // the longest first
	"watch isolate+kill",
	"audit audit-hang+kill",
	"register oneway-in+pause",
	"register clock+transfer",
	"append slow+kill-active",
	"set churn+flap",
	"tokens kill+drift",
	"once random+pause",
	"authority isolate+pause",
	"create halves loopback",
	"seal kill-all+pause",
	"append snapshot+kill-majority",
	"members power",
	"restore kill-active",
	"register roll+old haproxy",
}

const fullSeconds = 60

// sliceOf the rows: I/N is every N-th of them, from number I on.
func sliceOf(rows []string, slice string) (chosen []string, err error) {
	var number, count int
	if n, err := fmt.Sscanf(slice, "%d/%d", &number, &count); n != 2 || err != nil || number < 0 || number >= count {
		return nil, fmt.Errorf("--slice %s: I/N with I below N is expected", slice)
	}
	for i := number; i < len(rows); i += count {
		chosen = append(chosen, rows[i])
	}
	return chosen, nil
}

func suitePlans(o *options) (plans []runner.Plan, err error) {
	var rows []string
	switch o.suite {
	case "quick":
		if rows, err = sliceOf(quickRows, o.slice); err != nil {
			return nil, err
		}
		rows = append(rows, foundRows...)
	case "full":
		if !o.timed {
			o.plan.Seconds = fullSeconds
		}
		for _, w := range workload.All {
			for _, n := range nemesis.All {
				if n.Name != "none" && runner.Unfit(w, n) == "" {
					rows = append(rows, w.Name+" "+n.Name)
				}
			}
		}
		// in a random order, so that a suite that is ended early was not blind to some workloads
		rand.New(rand.NewSource(o.plan.Seed)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	default:
		return nil, fmt.Errorf("no suite %s: quick or full is expected", o.suite)
	}
	for i, text := range rows {
		words := strings.Fields(text)
		p := o.plan
		p.Workload, p.Nemeses = words[0], strings.Split(words[1], "+")
		p.Seed += int64(i)
		if len(words) > 2 && words[2] == "loopback" {
			p.Loopback = true
		} else if len(words) > 2 {
			p.Front = words[2]
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// suite is a suite that runs. Its table is a file that has each row once the row has ended.
type suite struct {
	o     *options
	plans []runner.Plan
	until time.Time // no row begins afterwards; zero: each does
	mu    sync.Mutex
	next  int
	rows  []row
	table *os.File
}

// runSuite runs some rows at once: most of the time they wait.
func runSuite(o *options) error {
	plans, err := suitePlans(o)
	if err != nil {
		return err
	}
	s := &suite{o: o, plans: plans}
	if o.hours > 0 {
		s.until = time.Now().Add(time.Duration(o.hours * float64(time.Hour)))
	}
	path := filepath.Join(o.top, "build", "jepsen", fmt.Sprintf("%s-%d.txt", o.suite, o.plan.Seed))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if s.table, err = os.Create(path); err != nil {
		return err
	}
	fmt.Printf("seed %d, table %s\n", o.plan.Seed, path)
	var all sync.WaitGroup
	for range o.jobs {
		all.Add(1)
		go func() {
			runtime.LockOSThread() // a run ends with the thread that started it
			defer runtime.UnlockOSThread()
			defer all.Done()
			for s.one() {
			}
		}()
	}
	all.Wait()
	if len(s.rows) < len(plans) {
		fmt.Printf("%d of %d rows ran\n", len(s.rows), len(plans))
	}
	return errors.Join(total(s.rows), s.table.Close())
}

// one row; false when there is none left, or no time.
func (s *suite) one() bool {
	s.mu.Lock()
	if s.next == len(s.plans) || (!s.until.IsZero() && time.Now().After(s.until)) {
		s.mu.Unlock()
		return false
	}
	p := s.plans[s.next]
	s.next++
	s.mu.Unlock()
	r := runRow(s.o, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, r)
	r.print(os.Stdout)
	r.print(s.table)
	return true
}
