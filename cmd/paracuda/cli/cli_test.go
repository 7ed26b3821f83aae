// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// TestStatus: the exit code is 2 after a mistake in the command line, an ExitCode's own, and 1
// after any other error.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {errors.New("no"), 1}, {Usagef("no"), 2}, {fmt.Errorf("a: %w", Usagef("b")), 2},
		{ExitCode(7), 7}, {fmt.Errorf("a: %w", ExitCode(7)), 7},
	} {
		if got := Status(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// refuses is a writer to a disk that is full after some writes.
type refuses struct{ left int }

func (r *refuses) Write(b []byte) (int, error) {
	if r.left--; r.left < 0 {
		return 0, errors.New("full")
	}
	return len(b), nil
}

// TestLostOutput: output that is lost is an error, though who prints doesn't look at it. Nothing is
// written after the gap.
func TestLostOutput(t *testing.T) {
	to := &refuses{1}
	n := &Noted{W: to}
	for range 3 {
		fmt.Fprintln(n, "line")
	}
	to.left = 9
	fmt.Fprintln(n, "line")
	if n.Failed() == nil || to.left != 9 {
		t.Errorf("%v, and %d writes left", n.Failed(), to.left)
	}
	was := Stdout
	defer func() { Stdout = was }()
	if Stdout = n; Status(nil) != 1 {
		t.Error("lost output is no error")
	}
	if Stdout = (&Noted{W: &bytes.Buffer{}}); Status(nil) != 0 {
		t.Error("output that wasn't lost is one")
	}
}

// TestNames: only lines like those of /etc/group have names.
func TestNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "group")
	text := "root:x:0:\n# no group\nkvm:x:9:a,b\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := names(file); !slices.Equal(got, []string{"root", "kvm"}) || names(file+"x") != nil {
		t.Errorf("%q", got)
	}
}

func TestArguments(t *testing.T) {
	c := &cobra.Command{Use: "stats"}
	set := &cobra.Command{Use: "device"}
	set.Flags().String("set", "", "")
	for _, tt := range []struct {
		err  error
		want string // "": none
	}{
		{TakesNothing(c, nil), ""}, {TakesNothing(c, []string{"x"}), `unexpected argument "x"`},
		{TakesNothing(set, []string{"a=b"}), "each --set takes one"},
		{TakesSocket(c, []string{"/run/x"}), ""}, {TakesSocket(c, nil), "want SOCKET"},
		{TakesSocket(c, []string{"a", "b"}), "want one SOCKET"},
		{TakesSocket(c, []string{strings.Repeat("x", 200)}), "the path has 200 bytes"},
	} {
		if tt.want == "" && tt.err != nil || tt.want != "" &&
			(tt.err == nil || !strings.Contains(tt.err.Error(), tt.want)) {
			t.Errorf("%v, want %q", tt.err, tt.want)
		}
	}
}

// TestCantMake: where a folder is missing, is none, or can't be written, the error says what to do.
func TestCantMake(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(dir, "gone")
	for _, c := range []struct {
		path string
		err  error
		want string
	}{
		{gone + "/s", syscall.ENOENT,
			"--o " + gone + "/s: its folder isn't there: mkdir -p " + gone},
		{file + "/s", syscall.ENOTDIR, file + " is no folder: choose another path"},
		{file + "/s/s", syscall.ENOTDIR, file + "/s is no folder: choose another path"},
		{dir + "/s", syscall.EACCES,
			"--o: permission denied: run this as root, or choose a path where you may write"},
		{dir + "/s", syscall.EROFS, "or choose a path where you may write"},
		{"s", syscall.EIO, "--o: input/output error"},
	} {
		err := CantMake("--o", c.path, c.err)
		if !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %v: %q, want %q", c.path, c.err, err, c.want)
		}
	}
}
