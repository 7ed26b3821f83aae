// SPDX-License-Identifier: Apache-2.0

package children

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device"
)

// TestAsker: a child that gives no good answer is ended, and the next one is started only after a
// pause.
func TestAsker(t *testing.T) {
	for _, test := range []struct {
		name, script string
		refused      string // what the error says; "": none, process 10 has 526 bytes of GPU 7
	}{
		{"good", `while read x; do echo '{"usage":[{"id":7,"used":{"10":526}}]}'; done`, ""},
		{"says why not", `read x; echo '{"error":"no GPU"}'`, "no GPU"},
		{"ends", `exit 1`, "ask the driver"},
		{"nonsense", `read x; echo '[['`, "ask the driver"},
		{"far too much", `read x; while echo -n xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; do :; done`,
			"buffer full"},
		{"hangs", `exec sleep 60`, "timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := &asker{
				log: logrus.NewEntry(logrus.New()),
				start: func(theirs *os.File) (device.Process, error) {
					c := exec.Command("sh", "-c", test.script)
					c.Stdin, c.Stdout = theirs, theirs
					return child{c}, c.Start()
				},
				patience: time.Minute,
			}
			if test.refused == "timeout" {
				a.patience = time.Second
			}
			for range 3 {
				usage, err := a.ask(nil)
				if test.refused == "" {
					if err != nil {
						t.Fatal(err)
					}
					if bytes, ok := usage.Used(7, 10); !ok || bytes != 526 {
						t.Errorf("%d bytes, %t", bytes, ok)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), test.refused) || a.child != nil {
					t.Fatalf("%v, child %v", err, a.child)
				}
				if _, err := a.ask(nil); err != errAskerPauses {
					t.Fatalf("asked again at once: %v", err)
				}
				a.again = time.Time{}
			}
			if a.child != nil {
				a.end()
			}
		})
	}
}
