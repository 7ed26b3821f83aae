// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// attacksByDay are those of tests/bench/attacks that don't take long: a guest's kernels never end,
// a device process lies to the arbiter, a VM takes another one's name, and the arbiter is killed.
var attacksByDay = []string{"endless", "turn-without-end", "same-name", "killed-arbiter"}

// TestAttacks attacks two VMs that share the software GPU. A GPU host runs the same script, which
// says what must hold under each attack: here that the VMs go on, and that their memory is
// unchanged. Other tests keep the processors busy at the same time, and with them the software GPU:
// so the shares are judged by `make attacks`, which runs alone.
func TestAttacks(t *testing.T) {
	notShort(t) // and no t.Parallel: its three VMs keep the processors busy
	progress(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "uml") {
		skip(t, "PARACUDA_VM leaves User Mode Linux out")
	}
	dir := logDir(t)
	args := []string{filepath.Join(root, "tests/bench/attacks"), "--gpu", "soft", "--busy",
		"--out", dir}
	limit := 20 * time.Minute
	switch {
	case !atNight:
		fmt.Printf("%s: only %v; make nightly runs all attacks\n", t.Name(), attacksByDay)
		args, limit = append(append(args, "--only"), attacksByDay...), 6*time.Minute
	case os.Getuid() != 0:
		fmt.Printf("%s: without hidden-work, which needs root\n", t.Name())
		args = append(args, "--without", "hidden-work")
	}
	cmd := exec.Command(python(t), args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = builderOf(compiler()), root, 10*time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, over := context.WithCancel(t.Context())
	defer over()
	go patienceOf(limit).end(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:%s", err, tail(out.String()))
	}
}
