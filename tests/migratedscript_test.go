// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMigratedScript runs the script that migrates a VM on a GPU host, with the software GPU: by
// day some of its steps.
func TestMigratedScript(t *testing.T) {
	needsQEMU(t)
	steps := []string{"live", "refused"}
	want := []string{"live", "migrate refused: linker", "savevm refused: linker", "live afterwards"}
	if atNight {
		steps = []string{"live", "file", "snapshot", "precopy", "refused", "declined"}
		want = append(want, "migrate declined: memory", "live after that", "to a file and back",
			"savevm", "loadvm", "live, memory ahead")
	}
	ctx, cancel := withPatience(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "tests/bundle/migrated"),
		append([]string{"--gpu", "soft", "--mib", "32", "--limit", "200", "--tls-dir",
			authority(t)}, steps...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends its VMs
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("tests/bundle/migrated: %v:\n%s", err, out)
	}
	_, table, _ := strings.Cut(string(out), "\n\n")
	for _, step := range want {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(step) + ` +\|.*\| yes +\|$`)
		if !row.MatchString(table) {
			t.Errorf("the table has no row %q with yes:\n%s", step, table)
		}
	}
}
