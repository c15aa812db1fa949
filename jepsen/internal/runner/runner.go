// Package runner does one run: a cluster, clients, faults, and the judgement of what came of it.
package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
	"holdfast/jepsen/internal/nemesis"
	"holdfast/jepsen/internal/workload"
)

// Plan of a run: what `jepsen/run` was asked for.
type Plan struct {
	Workload string
	Nemeses  []string
	Seconds  int
	Seed     int64
	Nodes    int
	Front    string // direct or haproxy
	Loopback bool   // make no namespaces, also where they could be made
}

const (
	clients = 10
	patient = 3 // of them, where nodes are hasty
)

// Name of the run, of its folder too.
func (p Plan) Name() string {
	name := p.Workload + "-" + strings.Join(p.Nemeses, "+")
	if p.Front == "haproxy" {
		name += "-haproxy"
	}
	if p.Nodes != 3 {
		name += fmt.Sprintf("-%dnodes", p.Nodes)
	}
	if p.Loopback {
		name += "-loopback"
	}
	return fmt.Sprintf("%s-%d", name, p.Seed)
}

// Command that does the same run again.
func (p Plan) Command() string {
	return "jepsen/run " + strings.Join(p.Arguments(), " ")
}

// Arguments of the run.
func (p Plan) Arguments() []string {
	args := []string{p.Workload, strings.Join(p.Nemeses, "+"), "--time", fmt.Sprint(p.Seconds),
		"--seed", fmt.Sprint(p.Seed), "--nodes", fmt.Sprint(p.Nodes), "--front", p.Front}
	if p.Loopback {
		args = append(args, "--loopback")
	}
	return args
}

// Where the nodes ran, if not in namespaces.
func (r *Result) Where() string {
	switch {
	case r.Plan.Loopback:
		return "on the loopback, as asked"
	case r.Loopback:
		return "on the loopback: this machine makes no network namespaces"
	}
	return ""
}

// Result of a run, in result.json.
type Result struct {
	Plan       Plan
	Loopback   bool // no namespaces could be made
	Operations int
	Faults     int
	Overlap    float64 // part of the operations that overlap a fault
	Elections  int
	LongestGap string   // without an acknowledged write of the prober
	Findings   []string // all that is wrong
	Anomalies  []string // those of them that the judge of the workload found
	Notes      []string
}

// run has all parts of a run.
type run struct {
	plan      Plan
	dir       string
	work      *workload.Workload
	nemeses   []*nemesis.Nemesis
	cluster   *cluster.Cluster
	env       *workload.Env
	probe     *prober
	watch     *watcher
	result    Result
	lastBegan int64           // time of the workload's Last, which may move leadership; 0: it has none
	stopped   int64           // when the clients were told to end
	harmed    map[string]bool // nemeses that should have moved leadership
	mu        sync.Mutex
}

func (r *run) find(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Findings = append(r.result.Findings, fmt.Sprintf(format, args...))
}

func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Notes = append(r.result.Notes, fmt.Sprintf(format, args...))
}

// Run does it, inside of what cluster.Enter made. The folder keeps the history and the verdict; the
// files of the nodes too, if anything was found.
func Run(p Plan, top, program, dir string) (*Result, error) {
	r := &run{plan: p, dir: dir, harmed: map[string]bool{}, result: Result{Plan: p}}
	var err error
	if r.work, err = workload.Find(p.Workload); err != nil {
		return nil, err
	}
	for _, name := range p.Nemeses {
		n, err := nemesis.Find(name)
		if err != nil {
			return nil, err
		}
		if why := Unfit(r.work, n); why != "" {
			return nil, errors.New(why)
		}
		r.nemeses = append(r.nemeses, n)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := r.open(top, program); err != nil {
		return nil, err
	}
	defer r.cluster.End()
	if err := r.storm(); err != nil {
		return nil, err
	}
	return r.judge()
}

// Unfit says why a run with this workload and this nemesis would mean nothing; "" if it does.
func Unfit(w *workload.Workload, n *nemesis.Nemesis) string {
	switch {
	case n.ChangesMembers && w.ChangesMembers:
		return fmt.Sprintf("%s changes the members by itself, so %s has no place there", w.Name, n.Name)
	case n.Older && w.Newer:
		return fmt.Sprintf("the build of %s lacks what %s needs", n.Name, w.Name)
	case n.TakesVotes && w.ChangesMembers:
		return fmt.Sprintf("%s demotes members, and the vote of another is lost by %s: no majority may be left", w.Name, n.Name)
	case n.Rewinds && !w.Rewinds:
		return fmt.Sprintf("%s undoes what clients were told, and the judge of %s does not allow that", n.Name, w.Name)
	}
	return ""
}

func (r *run) open(top, program string) error {
	sandbox, err := cluster.OpenSandbox(r.dir)
	if err != nil {
		return err
	}
	r.result.Loopback = sandbox.Loopback
	for _, n := range r.nemeses {
		if n.Links && sandbox.Loopback {
			return fmt.Errorf("this machine makes no network namespaces, so it cannot do %s", n.Name)
		}
	}
	if r.plan.Front != "direct" && r.work.Last != nil {
		return fmt.Errorf("%s asks two clusters: no front", r.work.Name)
	}
	o := cluster.Options{Size: r.plan.Nodes, Program: program, Top: top, Dir: filepath.Join(r.dir, "nodes")}
	if r.work.Options != nil {
		r.work.Options(&o)
	}
	for _, n := range r.nemeses {
		if n.Options != nil {
			n.Options(&o)
		}
		if n.Prepare != nil {
			if err := n.Prepare(&o); err != nil {
				return fmt.Errorf("%s: %w", n.Name, err)
			}
		}
	}
	if r.cluster, err = cluster.New(o, sandbox); err != nil {
		return err
	}
	if err = r.cluster.Start(); err != nil {
		return err
	}
	if r.cluster.Other != nil {
		if err = r.cluster.Follow(); err != nil {
			return err
		}
	}
	r.env = &workload.Env{Cluster: r.cluster, Seed: r.plan.Seed, Record: history.NewRecorder(),
		Marker: fmt.Sprintf("planted-%x-%d", time.Now().UnixNano(), r.plan.Seed)}
	if r.plan.Front == "haproxy" {
		if r.env.Front, err = r.cluster.StartProxy(); err != nil {
			return err
		}
	}
	if err = r.work.Setup(r.env); err != nil {
		return err
	}
	if r.probe, err = startProber(r.env); err != nil {
		return err
	}
	if r.work.Hasty {
		if err = r.cluster.Hasten(); err != nil {
			return err
		}
	}
	return r.cluster.NoteDescriptors()
}

const (
	quietFirst = 500 * time.Millisecond // before the first fault
	quietLast  = time.Second            // after the last one
)

// longestRun is how many times longer than asked for a run may become.
const longestRun = 3

// storm: clients and faults at the same time, then quiet, then the last reads.
func (r *run) storm() error {
	r.watch = startWatcher(r.env.Record, r.cluster)
	var all sync.WaitGroup
	for id := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			c := workload.NewClient(r.env, id, r.plan.Seed)
			c.Patient = r.work.Hasty && id >= clients-patient
			defer c.Close()
			r.work.Run(c)
		}()
	}
	time.Sleep(quietFirst)
	err := r.faults()
	if err != nil {
		r.find("the nemesis failed: %v", err)
	}
	if !r.work.Opens { // else clients are what opens the nodes
		if err := r.cluster.AwaitUp(); err != nil {
			r.find("after the faults: %v", err)
		}
	}
	r.probe.await()
	if r.work.Last != nil {
		r.lastBegan = r.env.Record.Now()
		if err := r.work.Last(r.env); err != nil {
			r.find("after the faults: %v", err)
		}
	}
	time.Sleep(quietLast)
	r.stopped = r.env.Record.Now()
	r.env.Stop()
	all.Wait()
	if r.cluster.Other != nil { // which serves now
		r.cluster = r.cluster.Other
		r.env.Cluster = r.cluster
	}
	r.probe.stop()
	r.watch.stop()
	if err := r.cluster.AwaitUp(); err != nil {
		r.find("at the end: %v", err)
		return nil
	}
	for i, n := range r.cluster.Nodes {
		c := workload.NewClient(r.env, 1000+i, r.plan.Seed)
		if err := r.work.Final(c, n); err != nil {
			r.find("%v", err)
		}
		c.Close()
	}
	return nil
}

// faults until the time is over: each nemesis alone, or all of them at the same time, by chance. It
// goes on for longer where the machine is too slow for the run to mean anything.
func (r *run) faults() error {
	env := nemesis.NewEnv(r.cluster, r.plan.Seed)
	other := env
	if r.cluster.Other != nil {
		other = nemesis.NewEnv(r.cluster.Other, r.plan.Seed+1)
	}
	for _, n := range r.nemeses {
		if n.Setup != nil {
			if err := n.Setup(env); err != nil {
				return fmt.Errorf("%s: %w", n.Name, err)
			}
		}
	}
	defer r.didAct(env, other)
	defer r.env.SetSlow(false)
	length := time.Duration(r.plan.Seconds) * time.Second
	end, last := time.Now().Add(length), time.Now().Add(longestRun*length)
	for time.Now().Before(end) || (time.Now().Before(last) && !r.meant()) {
		chosen := r.nemeses
		if i := env.Intn(len(r.nemeses) + 1); i < len(r.nemeses) {
			chosen = r.nemeses[i : i+1]
		}
		errs := make(chan error, len(chosen))
		for _, n := range chosen {
			side := env
			if secondaryToo[n.Name] && env.Intn(2) == 0 {
				side = other
			}
			go func() { errs <- r.oneFault(side, n) }()
		}
		for range chosen {
			if err := <-errs; err != nil {
				return err
			}
		}
		rest := 200 * time.Millisecond
		if r.overlap() < overlapWanted { // hardly anything is answered during such faults
			rest = 20 * time.Millisecond
			r.env.SetSlow(!r.quiet())
		}
		time.Sleep(between(env, rest, rest*7/2))
	}
	return nil
}

// secondaryToo are the nemeses that may also hit the secondary of a pair: those that ask nothing of it.
var secondaryToo = map[string]bool{"kill": true, "kill-majority": true, "kill-all": true, "stop": true, "roll": true,
	"pause": true, "freeze": true, "isolate": true, "halves": true, "bridge": true, "ring": true, "oneway-in": true,
	"oneway-out": true, "random": true, "flap": true, "thin": true, "clock": true}

// didAct finds nemeses that did nothing, and what nodes did that they may not do.
func (r *run) didAct(env, other *nemesis.Env) {
	for _, n := range r.nemeses {
		if n.Acts && env.Acted(n.Name)+other.Acted(n.Name) == 0 {
			r.find("%s did nothing", n.Name)
		}
	}
	problems := env.Problems()
	if other != env {
		problems = append(problems, other.Problems()...)
	}
	for _, text := range problems {
		r.find("%s", text)
	}
}

func between(env *nemesis.Env, least, most time.Duration) time.Duration {
	return least + time.Duration(env.Intn(int(most-least)))
}

// longestFault of a nemesis that does not say another time.
const longestFault = 3 * time.Second

func (r *run) oneFault(env *nemesis.Env, n *nemesis.Nemesis) error {
	time.Sleep(between(env, 0, 300*time.Millisecond))
	r.env.SetSlow(false)
	r.env.FaultBegins()
	defer r.env.FaultEnds()
	start := r.env.Record.Now()
	harm, err := n.Begin(env)
	if err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	if harm == nil {
		return nil
	}
	if harm.Moves {
		r.mu.Lock()
		r.harmed[n.Name] = true
		r.mu.Unlock()
	}
	longest := n.Longest
	if longest == 0 {
		longest = longestFault
	}
	time.Sleep(between(env, longest/4, longest))
	err = harm.Undo()
	undone := r.env.Record.Now()
	if harm.Back != nil && err == nil {
		harm.Back()
	}
	r.env.Record.AddFault(history.Fault{Fault: n.Name, What: harm.What, Start: start, Undone: undone, End: r.env.Record.Now()})
	if err != nil {
		return fmt.Errorf("%s, which %s, was not undone: %w", n.Name, harm.What, err)
	}
	return nil
}

// judge what happened, and write it down.
func (r *run) judge() (*Result, error) {
	h := r.env.Record.History()
	if err := h.Write(filepath.Join(r.dir, "history.jsonl")); err != nil {
		return nil, err
	}
	r.afterwards()
	r.enough(h)
	r.service(h)
	r.behindFront(h)
	began := time.Now()
	v := r.work.Judge(h)
	r.note("judged in %.1f s", time.Since(began).Seconds())
	r.result.Notes = append(r.result.Notes, v.Notes...)
	for _, a := range v.Anomalies {
		r.find("%s", a)
		r.result.Anomalies = append(r.result.Anomalies, a.String())
	}
	r.cluster.End()
	return &r.result, r.report(h, v)
}

// Rejudge a kept history.
func Rejudge(dir string) (*Result, error) {
	text, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		return nil, err
	}
	var result Result
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, err
	}
	w, err := workload.Find(result.Plan.Workload)
	if err != nil {
		return nil, err
	}
	h, err := history.Read(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return nil, err
	}
	v := w.Judge(h)
	result.Notes, result.Findings = v.Notes, nil
	for _, a := range v.Anomalies {
		result.Findings = append(result.Findings, a.String())
	}
	return &result, pictures(dir, v)
}

func pictures(dir string, v judge.Verdict) error {
	for name, draw := range v.Pictures {
		if err := draw(filepath.Join(dir, name+".html")); err != nil {
			return err
		}
	}
	return nil
}
