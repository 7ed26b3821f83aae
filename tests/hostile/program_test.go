// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPrograms: the two programs attack a device process, and say what came of each case.
func TestPrograms(t *testing.T) {
	for name, only := range map[string][]string{
		"frontend": {"message: request 5,", "session: memory"},
		"driver":   {"chain: MAP", "control: OPEN", "share: a handle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), name)
			if out, err := exec.Command("go", "build", "-o", program,
				"./"+name).CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			for _, text := range only {
				list, err := exec.Command(program, "--list", "--case", text).Output()
				if err != nil {
					t.Fatal(err)
				}
				_, at := newDevice(t, func(*exec.Cmd) {})
				out, err := exec.Command(program, "--socket", at.socket, "--case",
					text).CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				cases := strings.Split(strings.TrimSpace(string(list)), "\n")
				if n := strings.Count(string(out), "PASS  "); n != len(cases) || n == 0 {
					t.Errorf("%d cases passed, want %d:\n%s", n, len(cases), out)
				}
			}
		})
	}
}

// TestWhatProgramsSay: a program's exit status is 1 if a case fails, if what all cases use fails,
// or if the device process dies, and 2 if it can't begin.
func TestWhatProgramsSay(t *testing.T) {
	_, at := newDevice(t, func(*exec.Cmd) {})
	broken := errors.New("a promise is broken")
	program := &Program{
		name: "test",
		cases: func() []string {
			return []string{"good", "bad", "wedges", "breaks all", "kills", "last"}
		},
		begin: func(tb testing.TB, t *target) func(int) (verdict, error) {
			return func(i int) (verdict, error) {
				switch i {
				case 1:
					return fail, broken
				case 2:
					return wedged, broken
				case 3:
					tb.Fatal(broken)
				case 4:
					err := syscall.Kill(t.pid, syscall.SIGKILL)
					for err == nil && t.alive() {
						time.Sleep(time.Millisecond)
					}
					return pass, err
				}
				return pass, nil
			}
		},
		end: func() error { return nil },
	}
	for _, test := range []struct {
		arguments []string
		status    int
		said      string
	}{
		{[]string{"--list"}, 0, "good\nbad\nwedges\nbreaks all\nkills\nlast\n"},
		{[]string{"--socket", at.socket, "--case", "good"}, 0, "1 cases in "},
		{[]string{"--socket", at.socket, "--case", "last"}, 0, "1 PASS, 0 FAIL, 0 WEDGED"},
		{[]string{"--socket", at.socket, "--case", "bad"}, 1, "a promise is broken"},
		{[]string{"--socket", at.socket, "--case", "wedges"}, 1, "1 WEDGED"},
		{[]string{"--socket", at.socket, "--case", "breaks all"}, 1, "a promise is broken"},
		{[]string{"--socket", at.socket}, 1, "breaks all"},
		{[]string{"--socket", at.socket, "--case", "none"}, 2, "--list lists them"},
		{[]string{"--socket", at.socket, "more"}, 2, `unexpected argument "more"`},
		{[]string{"--none"}, 2, "paracuda device --socket-path SOCKET --gpu soft"},
		{nil, 2, "--socket"},
		{[]string{"--socket", at.socket, "--case", "kills"}, 1, errDied.Error()},
	} {
		var said bytes.Buffer
		status := program.Main(test.arguments, &said, &said)
		if status != test.status || !strings.Contains(said.String(), test.said) {
			t.Errorf("%q: status %d, want %d and %q:\n%s", test.arguments, status, test.status,
				test.said, &said)
		}
	}
}
