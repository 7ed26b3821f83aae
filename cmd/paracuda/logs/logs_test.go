// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"strings"
	"testing"
)

// TestExitWritesTheLog: what a process logs before it exits isn't lost.
func TestExitWritesTheLog(t *testing.T) {
	var out strings.Builder
	log, _, err := New(&out, &Flags{Level: "info"}, "worker")
	if err != nil {
		t.Fatal(err)
	}
	code := 0
	log.Logger.ExitFunc = func(c int) { code = c }
	log.Error("it ends")
	log.Logger.Exit(3)
	if code != 3 || !strings.Contains(out.String(), "it ends") {
		t.Errorf("exit code %d, the log has %q", code, out.String())
	}
}
