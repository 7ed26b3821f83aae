// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bootTime is how long the slowest VM may take, on a busy host.
const bootTime = 2 * time.Minute

// kinds runs a test in each front end. It boots VMs, and so not under -short.
func kinds(t *testing.T, test func(t *testing.T, c Config)) {
	for _, c := range []Config{{Kind: UML}, {Kind: QEMU}} {
		t.Run(string(c.Kind), func(t *testing.T) { boots(t); test(t, c) })
	}
}

func boots(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it boots a VM")
	}
}

// ran is what came of a program in a VM.
type ran struct {
	Result
	out, err string
}

// sh runs a shell script in the VM that c describes.
func sh(t *testing.T, c Config, script string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	var out, errs bytes.Buffer
	c.Program.Name, c.Program.Args = "sh", append([]string{"-c", script, "script"}, args...)
	c.Program.Stdout, c.Program.Stderr = &out, &errs
	result, err := Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return ran{result, out.String(), errs.String()}
}

// survey is a script that looks at all that a program sees of its VM.
const survey = `
printf '<%s>' "$@"; printf '\n%s\n%s\n' "$PWD" "$VARIABLE"
cat "$0.file"
touch /usr/written 2>/dev/null || echo read-only
echo in memory >/tmp/written && cat /tmp/written
test -c /dev/null && test -d /proc/self && test -d /sys/kernel && echo mounted
echo problem >&2
sha256sum
(sleep 1000 </dev/null >/dev/null 2>&1 &)
exit 7`

func TestProgramsSeeTheHost(t *testing.T) { kinds(t, seesTheHost) }

func TestKernel612(t *testing.T) {
	boots(t)
	seesTheHost(t, Config{Kind: QEMU, Machine: Machine{Kernel: "6.12"}})
}

func seesTheHost(t *testing.T, c Config) {
	// A name with a space, below /tmp, which has a layer of its own.
	c.Program.Dir = filepath.Join(t.TempDir(), "a b")
	write(t, filepath.Join(c.Program.Dir, "script.file"), "of the host\n")
	c.Program.Env = append(os.Environ(), "VARIABLE=v w\nx")
	input := bytes.Repeat([]byte("\x00\x03\x04\x11\x13\r\n\x7f\xff"), 9000)
	c.Program.Stdin = bytes.NewReader(input)
	got := sh(t, c, survey, "a  b", "", "c\nd", "é")
	want := "<a  b><><c\nd><é>\n" + c.Program.Dir + "\nv w\nx\nof the host\nread-only\n" +
		"in memory\nmounted\n" + sum(t, input)
	if got.out != want || got.err != "problem\n" || got.ExitCode != 7 {
		t.Errorf("exit code %d, standard error %q, and\n%s, not\n%s",
			got.ExitCode, got.err, got.out, want)
	}
	if exists("/tmp/written") {
		t.Error("the program wrote to the host's files")
	}
	t.Logf("in %s, kernel %s", got.FrontEnd, got.GuestKernel)
}

// sum is what sha256sum prints of the data.
func sum(t *testing.T, data []byte) string {
	t.Helper()
	cmd := exec.Command("sha256sum")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestOutputIsExact(t *testing.T) {
	kinds(t, func(t *testing.T, c Config) {
		got := sh(t, c, `head -c 3000000 /dev/zero | tr '\0' '\r'; printf '\n\0\377' >&2`)
		if len(got.out) != 3_000_000 || strings.Trim(got.out, "\r") != "" ||
			got.err != "\n\x00\xff" {
			t.Errorf("%d bytes came, and %q", len(got.out), got.err)
		}
	})
}

func TestExitCodes(t *testing.T) {
	boots(t)
	c := Config{Kind: UML}
	for script, want := range map[string]int{
		"exit 255": 255, "kill -9 $$": 137, "kill -SEGV $$": 139, "exec /": 126,
		"exec nothing-there": 127,
	} {
		if got := sh(t, c, script); got.ExitCode != want {
			t.Errorf("%s gives exit code %d, not %d", script, got.ExitCode, want)
		}
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	boots(t)
	var errs bytes.Buffer
	result, err := Run(context.Background(),
		Config{Kind: UML, Program: Program{Name: "nothing-there", Stderr: &errs}})
	if want := "paracuda: nothing-there: No such file or directory\n"; err != nil ||
		result.ExitCode != 127 || errs.String() != want {
		t.Errorf("%d, %v, %q", result.ExitCode, err, errs.String())
	}
}

func TestClosedOutputEndsTheProgram(t *testing.T) {
	boots(t)
	r, w := io.Pipe()
	r.Close()
	result, err := Run(context.Background(),
		Config{Kind: UML, Program: Program{Name: "yes", Stdout: w}})
	if err != nil || result.ExitCode != 128+13 {
		t.Errorf("exit code %d, %v", result.ExitCode, err)
	}
}

func TestWhatTheGuestCannotDoIsSaid(t *testing.T) {
	boots(t)
	for want, c := range map[string]Config{
		"open module /nothing.ko: No such file or directory": {
			Driver: GuestDriver{Modules: []Module{{File: "/nothing.ko"}}},
		},
		"wait for /dev/nothing: the guest driver found no device": {
			Driver: GuestDriver{File: "/dev/nothing"},
		},
	} {
		c.Kind, c.Program.Name = UML, "true"
		if _, err := Run(context.Background(), c); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, not %q", err, want)
		}
	}
}

func TestCancelEndsTheVM(t *testing.T) {
	kinds(t, func(t *testing.T, c Config) {
		ctx, cancel := context.WithCancel(context.Background())
		c.Program.Name, c.Program.Args = "sh", []string{"-c", "echo up; exec sleep 1000"}
		c.Program.Stdout = writerFunc(func([]byte) { cancel() })
		if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// TestParent is no test: TestVMDiesWithItsParent runs it as a process to kill.
func TestParent(t *testing.T) {
	kind := os.Getenv("PARACUDA_TEST_PARENT")
	if kind == "" {
		t.Skip("is run by another test")
	}
	Run(context.Background(), Config{Kind: Kind(kind), Program: Program{Name: "sh",
		Args: []string{"-c", "echo up; exec sleep 1000"}, Stdout: os.Stdout}})
}

func TestVMDiesWithItsParent(t *testing.T) {
	kinds(t, func(t *testing.T, c Config) {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestParent$")
		cmd.Env = append(os.Environ(), "PARACUDA_TEST_PARENT="+string(c.Kind), "TMPDIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		if len(naming(t, dir)) == 0 {
			t.Error("no process of the VM was found")
		}
		cmd.Process.Kill()
		cmd.Wait()
		for end := time.Now().Add(time.Minute); len(naming(t,
			dir)) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("left: %q", naming(t, dir))
			}
		}
	})
}

// naming lists the command lines of processes that name dir.
func naming(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && bytes.Contains(line, []byte(dir)) {
			lines = append(lines, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return lines
}
