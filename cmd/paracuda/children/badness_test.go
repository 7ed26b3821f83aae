// SPDX-License-Identifier: Apache-2.0

package children

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// TestChildrenGoFirst: when memory runs out the kernel kills a worker first, then the mover, before
// the device process.
func TestChildrenGoFirst(t *testing.T) {
	s := spawner{
		logs: logs.Flags{Level: "error"}, log: logrus.NewEntry(logrus.New()), stderr: os.Stderr,
		how: start{run: startApart},
	}
	before := readBadness(t, os.Getpid())
	for _, tt := range []struct {
		role  string
		start func(*os.File) (device.Process, error)
		want  string
	}{{"worker", s.Worker, "1000"}, {"mover", s.Mover, "500"}} {
		conn, theirs, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		p, err := tt.start(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if got := readBadness(t, p.(child).c.Process.Pid); got != tt.want {
			t.Errorf("oom_score_adj of a %s is %s, want %s", tt.role, got, tt.want)
		}
		p.Kill()
		_ = p.Wait()
		theirs.Close()
		conn.Close()
	}
	if after := readBadness(t, os.Getpid()); after != before {
		t.Errorf("that of the device process was %s and is %s", before, after)
	}
}

func readBadness(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
