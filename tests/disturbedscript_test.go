// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDisturbedScript runs the script that kills processes in the middle of suspends and resumes on
// a GPU host, with the software GPU.
func TestDisturbedScript(t *testing.T) {
	boots(t)
	told := filepath.Join(t.TempDir(), "told")
	ctx, cancel := withPatience(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python(t), "bundle/disturbed", "midway",
		filepath.Join(programs, "keeps"), "100")
	cmd.Env = append(os.Environ(), "GPU=soft", "MEM=512M", "TOLD="+told,
		"SECONDS="+map[bool]string{true: "120", false: "15"}[atNight])
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends its VM
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	counts, _ := os.ReadFile(told)
	if err != nil || !strings.Contains(string(counts), "killed: ") ||
		strings.Contains(string(counts), "WRONG") {
		t.Fatalf("tests/bundle/disturbed: %v:\n%s\n%s", err, out, counts)
	}
	t.Logf("%s", counts)
}
