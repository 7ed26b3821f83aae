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
	"testing"

	"github.com/spf13/cobra"
)

// TestStatus: a mistake in the command line is 2, what couldn't be done 1, and what has been said
// ends with its own code.
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

// refuses is a writer to a disk that is full.
type refuses struct{ left int }

func (r *refuses) Write(b []byte) (int, error) {
	if r.left--; r.left < 0 {
		return 0, errors.New("full")
	}
	return len(b), nil
}

// TestLostOutput: what can't be printed is an error, though who prints doesn't look, and nothing is
// written behind the gap.
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

// TestNames are of lines like those of /etc/group alone.
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
