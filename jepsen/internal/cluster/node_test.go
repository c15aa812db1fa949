package cluster

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// ended starts a script as the program of a node, stops it when it is ready, and gives what was found.
func ended(t *testing.T, script string) []string {
	t.Helper()
	runtime.LockOSThread() // a node ends with the thread that started it
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	program, ready := filepath.Join(dir, "program"), filepath.Join(dir, "ready")
	text := "#!/bin/sh\ntrap '" + script + "' TERM\ntouch " + ready + "\nwhile :; do sleep 0.01; done\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	n := &Node{Name: "n", Dir: dir, program: program, cluster: &Cluster{sandbox: &Sandbox{Loopback: true}}}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the script does not begin")
		}
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	return n.crashes
}

func TestANodeThatFailsWhenItIsStoppedIsAFinding(t *testing.T) {
	if found := ended(t, "exit 0"); len(found) > 0 {
		t.Errorf("it ended well, and %q was found", found)
	}
	if found := ended(t, "exit 3"); len(found) != 1 || !strings.Contains(found[0], "exit status 3") {
		t.Errorf("it ended with 3, and %q was found", found)
	}
}
