// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// TestKilledRunLeavesNothing: the next run removes what a run that was killed has left.
func TestKilledRunLeavesNothing(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		tmp, err := os.MkdirTemp("", "killed") // sockets have short paths
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		run := func(args ...string) *exec.Cmd {
			c := exec.CommandContext(t.Context(), paracuda,
				append([]string{"run", "--vm", vm.name, "--gpu", "soft", "--"}, args...)...)
			c.Env = append(os.Environ(), "TMPDIR="+tmp)
			return c
		}
		first := run("sh", "-c", "echo up; exec sleep 1000")
		out, err := first.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
			t.Errorf("the VM says %q, want \"up\": %v", line, err)
		}
		_ = first.Process.Kill()
		_ = first.Wait()
		if left, err := os.ReadDir(tmp); err != nil || len(left) == 0 {
			t.Fatalf("a run that was killed has left nothing to remove: %v", err)
		}
		if text, err := run("true").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
			t.Errorf("after the next run %v is left, %v, want nothing", left, err)
		}
	})
}
