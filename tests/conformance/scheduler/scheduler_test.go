// Upstream's own Go client of the scheduler, unmodified, against real nodes and an agent. The client finds
// them by NOMAD_ADDR, NOMAD_CACERT and NOMAD_TOKEN. ADDRESSES names every node, separated by commas.
package scheduler

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

func clients(t *testing.T) []*api.Client {
	var made []*api.Client
	for _, address := range strings.Split(os.Getenv("ADDRESSES"), ",") {
		config := api.DefaultConfig()
		config.Address = address
		client, err := api.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, client)
	}
	return made
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func shell(name, script string) *api.Job {
	task := api.NewTask("t", "raw_exec")
	task.Config = map[string]interface{}{"command": "/bin/sh", "args": []string{"-c", script}}
	task.Resources = &api.Resources{}
	job := api.NewServiceJob(name, name, "global", 50)
	job.AddDatacenter("*")
	job.AddTaskGroup(api.NewTaskGroup("g", 1).AddTask(task))
	return job
}

// running registers a job and waits until its allocation runs.
func running(t *testing.T, client *api.Client, job *api.Job) *api.Allocation {
	t.Helper()
	reply, meta, err := client.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	if meta.LastIndex == 0 || reply.EvalID == "" {
		t.Fatalf("no index or evaluation: %+v %+v", reply, meta)
	}
	var id string
	await(t, "the job does not run", func() bool {
		stubs, _, err := client.Jobs().Allocations(*job.ID, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, stub := range stubs {
			if stub.ClientStatus == "running" && stub.DesiredStatus == "run" {
				id = stub.ID
			}
		}
		return id != ""
	})
	alloc, _, err := client.Allocations().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return alloc
}

func TestAnAllocationIsListedReadAndWatched(t *testing.T) {
	for _, client := range clients(t) {
		alloc := running(t, client, shell("watched", "while :; do sleep 1; done"))
		if alloc.TaskStates["t"].State != "running" || alloc.TaskStates["t"].StartedAt.IsZero() ||
			alloc.Job == nil || *alloc.Job.ID != "watched" || alloc.AllocatedResources.Tasks["t"].Cpu.CpuShares != 100 {
			t.Fatalf("%+v", alloc)
		}
		stubs, meta, err := client.Allocations().List(&api.QueryOptions{Prefix: alloc.ID[:8]})
		if err != nil || len(stubs) != 1 || stubs[0].ID != alloc.ID || meta.LastIndex == 0 || !meta.KnownLeader {
			t.Fatalf("%v %+v %+v", err, stubs, meta)
		}
		page, meta, err := client.Allocations().List(&api.QueryOptions{PerPage: 1, Namespace: "*"})
		if err != nil || len(page) != 1 {
			t.Fatalf("%v %+v", err, page)
		}
		_, meta, err = client.Allocations().Info(alloc.ID, nil)
		begun := time.Now()
		_, _, err = client.Allocations().Info(alloc.ID, &api.QueryOptions{WaitIndex: meta.LastIndex,
			WaitTime: 200 * time.Millisecond})
		if err != nil || time.Since(begun) < 200*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
	}
}

func TestAStoppedAllocationIsReplaced(t *testing.T) {
	for _, client := range clients(t) {
		alloc := running(t, client, shell("replaced", "while :; do sleep 1; done"))
		reply, err := client.Allocations().Stop(alloc, nil)
		if err != nil || reply.EvalID == "" {
			t.Fatal(err)
		}
		await(t, "the evaluation does not end", func() bool {
			eval, _, err := client.Evaluations().Info(reply.EvalID, nil)
			return err == nil && eval.Status == "complete"
		})
		old, _, err := client.Allocations().Info(alloc.ID, nil)
		if err != nil || old.NextAllocation == "" || old.DesiredStatus != "stop" {
			t.Fatalf("%v %+v", err, old)
		}
		await(t, "the old allocation does not end", func() bool {
			old, _, err = client.Allocations().Info(alloc.ID, nil)
			return err == nil && old.ClientStatus == "complete"
		})
	}
}

func TestATaskIsSignalledAndRestarted(t *testing.T) {
	for _, client := range clients(t) {
		alloc := running(t, client, shell("acted", "trap 'exit 0' USR1; while :; do sleep 0.1; done"))
		if err := client.Allocations().Restart(alloc, "t", nil); err != nil {
			t.Fatal(err)
		}
		await(t, "the task is not restarted", func() bool {
			now, _, err := client.Allocations().Info(alloc.ID, nil)
			return err == nil && now.TaskStates["t"].State == "running" && now.TaskStates["t"].Restarts > 0
		})
		if err := client.Allocations().RestartAllTasks(alloc, nil); err != nil {
			t.Fatal(err)
		}
		await(t, "the task does not run again", func() bool {
			now, _, err := client.Allocations().Info(alloc.ID, nil)
			return err == nil && now.TaskStates["t"].State == "running" && now.TaskStates["t"].Restarts > 1
		})
		if err := client.Allocations().Signal(alloc, nil, "t", "SIGCONT"); err != nil {
			t.Fatal(err)
		}
		if err := client.Allocations().Signal(alloc, nil, "absent", "SIGCONT"); err == nil ||
			!strings.Contains(err.Error(), "Task not found") {
			t.Fatal(err)
		}
		if _, _, err := client.Jobs().Deregister("acted", false, nil); err != nil {
			t.Fatal(err)
		}
		await(t, "the job does not stop", func() bool {
			now, _, err := client.Allocations().Info(alloc.ID, nil)
			return err == nil && now.ClientStatus == "complete"
		})
	}
}

func TestExecGivesOutputAndExitCode(t *testing.T) {
	for _, client := range clients(t) {
		alloc := running(t, client, shell("entered", "while :; do sleep 1; done"))
		for _, code := range []int{0, 5} {
			var out, errors bytes.Buffer
			command := []string{"/bin/sh", "-c", "cat; echo below >&2; exit " + string(rune('0'+code))}
			got, err := client.Allocations().Exec(context.Background(), alloc, "t", false, command,
				strings.NewReader("through\n"), &out, &errors, make(chan api.TerminalSize), nil)
			if err != nil || got != code || out.String() != "through\n" || errors.String() != "below\n" {
				t.Fatalf("%v, code %d, out %q, errors %q", err, got, out.String(), errors.String())
			}
		}
		_, err := client.Allocations().Exec(context.Background(), alloc, "absent", false, []string{"true"},
			strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}, make(chan api.TerminalSize), nil)
		if err == nil || !strings.Contains(err.Error(), `unknown task name "absent"`) {
			t.Fatal(err)
		}
	}
}

func TestServicesAndChecksAreRead(t *testing.T) {
	client := clients(t)[1]
	job := shell("served", "exec python3 -m http.server -b 127.0.0.1 $NOMAD_PORT_http")
	job.TaskGroups[0].Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "http"}}}}
	job.TaskGroups[0].Services = []*api.Service{{Name: "site", Provider: "nomad", PortLabel: "http",
		Checks: []api.ServiceCheck{{Name: "up", Type: "http", Path: "/", Interval: time.Second, Timeout: time.Second}}}}
	alloc := running(t, client, job)
	services, _, err := client.Allocations().Services(alloc.ID, nil)
	if err != nil || len(services) != 1 || services[0].ServiceName != "site" || services[0].Port < 20000 {
		t.Fatalf("%v %+v", err, services)
	}
	await(t, "the check does not succeed", func() bool {
		checks, err := client.Allocations().Checks(alloc.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range checks {
			if check.Check == "up" && check.Status == "success" {
				return true
			}
		}
		return false
	})
}

func TestNodesAndErrorsAreRead(t *testing.T) {
	for _, client := range clients(t) {
		nodes, _, err := client.Nodes().List(nil)
		if err != nil || len(nodes) == 0 || nodes[0].Status != "ready" {
			t.Fatalf("%v %+v", err, nodes)
		}
		node, _, err := client.Nodes().Info(nodes[0].ID, nil)
		if err != nil || node.HTTPAddr != "" || node.NodeResources.Cpu.CpuShares == 0 {
			t.Fatalf("%v %+v", err, node)
		}
		_, _, err = client.Allocations().Info("00000000-0000-4000-8000-000000000000", nil)
		if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "alloc not found") {
			t.Fatal(err)
		}
	}
}
