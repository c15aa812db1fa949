package main

import (
	"fmt"
	"runtime"
	"strings"
	"sync"

	"holdfast/jepsen/internal/nemesis"
	"holdfast/jepsen/internal/runner"
	"holdfast/jepsen/internal/workload"
)

// quickRows: each workload with the faults that are most likely to hurt it.
var quickRows = []string{
	"dr kill+isolate", // the longest first
	"watch isolate+kill",
	"audit audit-hang+kill",
	"register isolate+kill",
	"register oneway-in+pause",
	"register clock+transfer",
	"append slow+kill-active",
	"set churn+flap",
	"tokens kill+drift",
	"once random+pause",
	"authority isolate+pause",
	"create halves",
	"seal kill-all+pause",
	"append snapshot+kill-majority",
	"members power",
	"restore kill-active",
	"register replace",
	"register roll+old haproxy",
}

const fullSeconds = 60

func suitePlans(o *options) (plans []runner.Plan, err error) {
	var rows []string
	switch o.suite {
	case "quick":
		rows = quickRows
	case "full":
		o.plan.Seconds = fullSeconds
		for _, w := range workload.All {
			for _, n := range nemesis.All {
				if n.Name != "none" && runner.Unfit(w, n) == "" {
					rows = append(rows, w.Name+" "+n.Name)
				}
			}
		}
	default:
		return nil, fmt.Errorf("no suite %s: quick or full is expected", o.suite)
	}
	for i, text := range rows {
		words := strings.Fields(text)
		p := o.plan
		p.Workload, p.Nemeses = words[0], strings.Split(words[1], "+")
		p.Seed += int64(i)
		if len(words) > 2 {
			p.Front = words[2]
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// runSuite runs some rows at once: most of the time they wait.
func runSuite(o *options) error {
	plans, err := suitePlans(o)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d\n", o.plan.Seed)
	rows := make([]row, len(plans))
	next := make(chan int)
	var all sync.WaitGroup
	var print sync.Mutex
	for range o.jobs {
		all.Add(1)
		go func() {
			runtime.LockOSThread() // a run ends with the thread that started it
			defer runtime.UnlockOSThread()
			defer all.Done()
			for i := range next {
				rows[i] = runRow(o, plans[i])
				print.Lock()
				rows[i].print()
				print.Unlock()
			}
		}()
	}
	for i := range plans {
		next <- i
	}
	close(next)
	all.Wait()
	return total(rows)
}
