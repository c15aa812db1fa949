package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

// plantedBugs of the program (src/base/plant.h), and the row that finds each. The last one is no bug:
// its run must be clean.
var plantedBugs = []struct{ name, row string }{
	{"ACK_BEFORE_COMMIT", "append isolate+kill-active"},
	{"R1_NO_PRECONDITION", "append transfer"},
	{"R1_CAS_OLD_ROOT", "append transfer"},
	{"R3_POLICY_ELSEWHERE", "authority transfer"},
	{"R3_REVOKED_ELSEWHERE", "authority transfer"},
	{"R3_USE_UNCOMMITTED", "once pause"},
	{"R3_ANCESTORS", "tokens transfer"},
	{"WATCH_INDEX", "watch transfer"},
	{"WATCH_STALE", "watch transfer"},
	{"WATCH_DROPPED", "watch none"},
	{"DR_DUTY_RUNS", "dr isolate+kill"},
	{"DR_GAP", "dr isolate"},
	{"DR_TWICE", "dr isolate"},
	{"R15_NO_ROUND", "register wake"},
	{"AUDIT_AFTER", "audit kill-active"},
	{"AUDIT_TWICE", "audit transfer"},
	{"STANDBY_STALE", "register kill"},
	{"FORWARD_NEW_ID", "append kill-active"},
	{"UNWRAP_ON_STANDBY", "once pause"},
	{"WORKER_OLD_POLICY", "authority transfer"},
	{"GAVE_UP_TOO_LATE", "append oneway-in"},
	{"SEALED_ANSWERS", "seal pause"},
	{"SYNC_SKIPPED", "register power-all"},
	{"LIST_SKIPS", "set flap"},
	{"QUOTA_TWICE", "quota transfer"},
	{"CACHE_PAST_RESTORE", "restore pause"},
	{"JOIN_TWICE", "once pause"},
	{"REMOVED_SERVES", "members kill"},
	{"DRAIN_CUTS", "audit roll haproxy"},
	{"", "register isolate"},
}

// notBack are bugs that no client sees as a contradiction: nodes notice that their disk lost what they had
// promised and join anew, so no majority comes back. This finding shows them.
var notBack = map[string]string{"SYNC_SKIPPED": "no write was acknowledged after"}

const plantEnv = "HOLDFAST_PLANT"

var errMissed = errors.New("planted bugs were missed")

// plantedCommand judges the judges: each bug is found by what clients see, not by a run that did too
// little.
func plantedCommand(args []string) error {
	o, err := parse(append([]string{"--suite", "planted"}, args...))
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, name := range o.names {
		wanted[name] = true
	}
	var print sync.Mutex
	found, all := 0, 0
	var group sync.WaitGroup
	next := make(chan int)
	for range o.jobs {
		group.Add(1)
		go func() {
			runtime.LockOSThread() // a run ends with the thread that started it
			defer runtime.UnlockOSThread()
			defer group.Done()
			for i := range next {
				good := plantedRow(o, i, &print)
				print.Lock()
				if plantedBugs[i].name != "" {
					all++
				}
				if good && plantedBugs[i].name != "" {
					found++
				} else if !good && plantedBugs[i].name == "" {
					err = errMissed
				}
				print.Unlock()
			}
		}()
	}
	for i, bug := range plantedBugs {
		if len(wanted) == 0 || wanted[bug.name] {
			next <- i
		}
	}
	close(next)
	group.Wait()
	fmt.Printf("%d of %d planted bugs found\n", found, all)
	if found < all {
		return errMissed
	}
	return err
}

// plantedRow says whether the bug was found, or the run without one was clean.
func plantedRow(o *options, i int, print *sync.Mutex) bool {
	bug := plantedBugs[i]
	words := strings.Fields(bug.row)
	p := o.plan
	p.Workload, p.Nemeses = words[0], strings.Split(words[1], "+")
	p.Seed += int64(i)
	if len(words) > 2 {
		p.Front = words[2]
	}
	r := runRowWith(o, p, plantEnv+"="+bug.name)
	print.Lock()
	defer print.Unlock()
	if r.err != nil {
		fmt.Printf("%-22s %-28s FAILED %v\n", bug.name, bug.row, r.err)
		return false
	}
	anomalies := r.result.Anomalies
	for _, text := range r.result.Findings {
		if want := notBack[bug.name]; want != "" && strings.HasPrefix(text, want) {
			anomalies = append(anomalies, text)
		}
	}
	if bug.name == "" {
		fmt.Printf("%-22s %-28s %d findings\n", "(none)", bug.row, len(r.result.Findings))
		for _, text := range r.result.Findings {
			fmt.Printf("    %.1000s\n", text)
		}
		return len(r.result.Findings) == 0
	}
	shown := "MISSED"
	if len(anomalies) > 0 {
		shown, _, _ = strings.Cut(anomalies[0], "\n")
		_ = os.RemoveAll(r.dir) // as expected: nothing to look into
	}
	fmt.Printf("%-22s %-28s %.160s\n", bug.name, bug.row, shown)
	return len(anomalies) > 0
}
