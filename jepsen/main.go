// The harness runs real clusters under real faults: see README.md.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/nemesis"
	"holdfast/jepsen/internal/runner"
	"holdfast/jepsen/internal/workload"
)

// The child of cluster.Enter ends with the thread that started it: that is the main one.
func init() { runtime.LockOSThread() }

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errFound = errors.New("anomalies were found")

func command(args []string) error {
	if len(args) > 0 && args[0] == "run" {
		return runCommand(args[1:])
	}
	if len(args) > 0 && args[0] == "planted" {
		return plantedCommand(args[1:])
	}
	if len(args) > 0 && args[0] == "forever" {
		return foreverCommand(args[1:])
	}
	if len(args) == 2 && args[0] == "check" {
		return checkCommand(args[1])
	}
	return errors.New("usage: run … or check DIR; see jepsen/README.md")
}

func checkCommand(dir string) error {
	result, err := runner.Rejudge(dir)
	if err != nil {
		return err
	}
	for _, text := range append(result.Notes, result.Findings...) {
		fmt.Println(text)
	}
	fmt.Printf("%d anomalies\n", len(result.Findings))
	if len(result.Findings) > 0 {
		return errFound
	}
	return nil
}

type options struct {
	top, suite string
	slice      string // of the quick suite: I/N
	list       bool
	timed      bool // --time was given
	jobs       int
	hours      float64
	plan       runner.Plan
	names      []string // what is no flag
}

func (o *options) program() string {
	if program := os.Getenv("HOLDFAST_BIN"); program != "" {
		return program
	}
	return filepath.Join(o.top, "build", "release", "holdfast")
}

func (o *options) dir(p runner.Plan) string { return filepath.Join(o.top, "build", "jepsen", p.Name()) }

// parse takes flags before, between and behind the names.
func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("jepsen/run", flag.ContinueOnError)
	flags.StringVar(&o.top, "top", ".", "the source tree")
	flags.StringVar(&o.suite, "suite", "", "run the rows of this suite: quick or full")
	flags.StringVar(&o.slice, "slice", "0/1", "of the quick suite the rows of number I of N: I/N")
	flags.BoolVar(&o.list, "list", false, "list workloads and nemeses")
	flags.IntVar(&o.jobs, "jobs", 3, "rows of a suite at once")
	flags.Float64Var(&o.hours, "hours", 0, "hours after which a suite begins no row, and jepsen/forever ends; 0: no limit")
	flags.IntVar(&o.plan.Seconds, "time", 20, "seconds of faults")
	flags.Int64Var(&o.plan.Seed, "seed", rand.Int63n(1<<31), "what chance begins with")
	flags.IntVar(&o.plan.Nodes, "nodes", 3, "nodes of the cluster: 1, 3 or 5")
	flags.StringVar(&o.plan.Front, "front", "direct", "what clients ask: direct or haproxy")
	flags.BoolVar(&o.plan.Loopback, "loopback", false, "make no namespaces: nodes run on the loopback, each behind a relay")
	var names []string
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) > 0 {
			names, args = append(names, args[0]), args[1:]
		}
	}
	flags.Visit(func(f *flag.Flag) { o.timed = o.timed || f.Name == "time" })
	if o.plan.Front != "direct" && o.plan.Front != "haproxy" {
		return nil, fmt.Errorf("--front %s: direct or haproxy is expected", o.plan.Front)
	}
	if o.names = names; o.list || o.suite != "" {
		return o, nil
	}
	if len(names) != 2 {
		return nil, errors.New("a workload and a nemesis are expected; --list names them")
	}
	o.plan.Workload, o.plan.Nemeses = names[0], strings.Split(names[1], "+")
	return o, nil
}

func runCommand(args []string) error {
	o, err := parse(args)
	switch {
	case err != nil:
		return err
	case o.list:
		list()
		return nil
	case cluster.Inside():
		_, err := runner.Run(o.plan, o.top, o.program(), o.dir(o.plan))
		return err
	case o.suite != "":
		return runSuite(o)
	}
	result := runRow(o, o.plan)
	result.print(os.Stdout)
	return total([]row{result})
}

func list() {
	for _, w := range workload.All {
		fmt.Printf("workload %-12s %s\n", w.Name, w.Does)
	}
	for _, n := range nemesis.All {
		fmt.Printf("nemesis  %-12s %s\n", n.Name, n.Does)
	}
}

// row is one run that was made in a process of its own.
type row struct {
	plan   runner.Plan
	dir    string
	result *runner.Result
	err    error
}

func runRow(o *options, p runner.Plan) row { return runRowWith(o, p) }

// runRowWith more of the environment for the nodes.
func runRowWith(o *options, p runner.Plan, env ...string) row {
	r := row{plan: p, dir: o.dir(p)}
	if err := os.MkdirAll(filepath.Dir(r.dir), 0o755); err != nil {
		r.err = err
		return r
	}
	args := append([]string{"run", "--top", o.top}, p.Arguments()...)
	code, err := cluster.Enter(args, env, p.Loopback, os.Stderr)
	if err == nil && code != 0 {
		err = fmt.Errorf("the run ended with code %d", code)
	}
	if r.err = err; err != nil {
		return r
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "result.json"))
	if err != nil {
		r.err = err
		return r
	}
	r.result = &runner.Result{}
	r.err = json.Unmarshal(text, r.result)
	return r
}

func (r row) findings() int {
	if r.err != nil {
		return 1
	}
	return len(r.result.Findings)
}

func (r row) print(w io.Writer) {
	if r.err != nil {
		fmt.Fprintf(w, "%-44s FAILED %v\n    again: %s\n", r.plan.Name(), r.err, r.plan.Command())
		return
	}
	s := r.result
	fmt.Fprintf(w, "%-44s %6d operations, %3.0f %% in %2d faults, %2d elections, longest gap %s, %d findings\n",
		r.plan.Name(), s.Operations, 100*s.Overlap, s.Faults, s.Elections, s.LongestGap, len(s.Findings))
	if where := s.Where(); where != "" {
		fmt.Fprintf(w, "    %s\n", where)
	}
	for _, finding := range s.Findings {
		fmt.Fprintf(w, "    %.6000s\n", finding)
	}
	if len(s.Anomalies) > 0 {
		fmt.Fprintf(w, "    the judge found %d of them\n", len(s.Anomalies))
	}
	if len(s.Findings) > 0 {
		fmt.Fprintf(w, "    again: %s\n    kept: %s\n", r.plan.Command(), r.dir)
	}
}

func total(rows []row) error {
	workloads := map[string]bool{}
	faults, operations, anomalies := 0, 0, 0
	for _, r := range rows {
		anomalies += r.findings()
		if r.result != nil {
			workloads[r.plan.Workload] = true
			faults += r.result.Faults
			operations += r.result.Operations
		}
	}
	fmt.Printf("%d workloads, %d faults, %d operations, %d anomalies\n", len(workloads), faults, operations, anomalies)
	if anomalies > 0 {
		return errFound
	}
	return nil
}
