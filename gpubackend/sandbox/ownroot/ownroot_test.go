// SPDX-License-Identifier: Apache-2.0

package ownroot

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/internal/leaks"
)

const treeVariable = "PARACUDA_TEST_TREE"

func TestMain(m *testing.M) {
	if text := os.Getenv(treeVariable); text != "" {
		os.Exit(child(text))
	}
	os.Exit(leaks.Main(m))
}

// seen is what a process in the tree says of it.
type seen struct {
	Err              string
	Root             []string
	Processes        []string
	Read             map[string]string
	Written, Refused []string
}

// child enters a tree and says what is there.
func child(text string) int {
	var t Tree
	var s seen
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.Enter()
	}
	if err != nil {
		s.Err = err.Error()
	}
	names := func(dir string) (names []string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	s.Root = names("/")
	for _, name := range names("/proc") {
		if name[0] >= '0' && name[0] <= '9' {
			s.Processes = append(s.Processes, name)
		}
	}
	s.Read = map[string]string{}
	for _, path := range append(t.ReadOnly, ProgramPath) {
		if _, err := os.Stat(path); err == nil {
			text, _ := os.ReadFile(path)
			s.Read[path] = string(text[:min(len(text), 16)])
		}
	}
	dirs := append([]string{"/", "/proc", filepath.Dir(t.ReadOnly[0])}, t.Empty...)
	dirs = append(dirs, t.Writable...)
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err == nil {
			s.Written = append(s.Written, dir)
		}
	}
	for _, path := range []string{
		t.ReadOnly[0], "/proc/sys/kernel/core_pattern", ProgramPath, "/../..",
	} {
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); errors.Is(err, unix.EROFS) ||
			errors.Is(err, unix.EISDIR) {
			s.Refused = append(s.Refused, path)
		} else if err == nil {
			f.Close()
		}
	}
	out, _ := json.Marshal(s)
	fmt.Printf("%s\n", out)
	return 0
}

// TestEnter has a process enter a tree, as root and by a user namespace, as ordinary users do.
func TestEnter(t *testing.T) {
	for name, ofUser := range map[string]bool{
		"root": false, "ordinary user": true,
	} {
		t.Run(name, func(t *testing.T) {
			if !ofUser && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			testEnter(t, ofUser)
		})
	}
}

// TestLinks: folders that are named by links are there, as folders and by these names.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.MkdirAll(at("shown/real"), 0o755), os.MkdirAll(at("elsewhere/real"), 0o755),
		os.WriteFile(at("shown/real/a"), []byte("in the same folder"), 0o644),
		os.WriteFile(at("elsewhere/real/a"), []byte("in another"), 0o644),
		os.Symlink("real", at("shown/relative")),
		os.Symlink(at("shown/real"), at("shown/absolute")),
		os.Symlink(at("elsewhere"), at("shown/away")), os.Symlink("elsewhere", at("outside")),
	); err != nil {
		t.Fatal(err)
	}
	tree := Tree{Program: at("shown/real/a"), ReadOnly: []string{
		at("shown"), at("shown/real"), at("shown/relative"), at("shown/absolute"),
		at("shown/away/real"), at("outside/real"), at("outside/real/a"),
	}}
	files := map[string]string{}
	for _, path := range tree.ReadOnly[1:6] {
		file := filepath.Join(path, "a")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files[file] = string(text[:min(len(text), 16)])
	}
	tree.ReadOnly = append(tree.ReadOnly, slices.Collect(maps.Keys(files))...)
	s := enterAs(t, tree, true)
	if s.Err != "" {
		t.Fatal(s.Err)
	}
	for file, text := range files {
		if s.Read[file] != text {
			t.Errorf("%s: %q, want %q", file, s.Read[file], text)
		}
	}
}

func testEnter(t *testing.T, ofUser bool) {
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "shown", "file"), filepath.Join(dir, "secret")
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "kept"), 0o700),
		os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("text"), 0o644),
		os.WriteFile(secret, []byte("x"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	tree := Tree{
		ReadOnly: []string{filepath.Dir(file), file, "/nowhere/nothing"},
		Devices:  []string{"/dev/null"}, Empty: []string{"/scratch/inner"}, Program: file,
		Writable: []string{filepath.Join(dir, "kept")},
	}
	s := enterAs(t, tree, ofUser)
	if s.Err != "" {
		t.Fatal(s.Err)
	}
	first := strings.Split(dir, "/")[1]
	want := []string{first, "dev", "paracuda", "proc", "scratch"}
	if slices.Sort(want); !slices.Equal(s.Root, want) {
		t.Errorf("the root has %q, want %q", s.Root, want)
	}
	if !slices.Equal(s.Processes, []string{"1"}) {
		t.Errorf("it sees the processes %q", s.Processes)
	}
	if s.Read[file] != "text" || s.Read[ProgramPath] != "text" {
		t.Errorf("it reads %q", s.Read)
	}
	if _, is := s.Read["/nowhere/nothing"]; is {
		t.Error("it has what the host hasn't")
	}
	if want := append(tree.Empty, tree.Writable...); !slices.Equal(s.Written, want) {
		t.Errorf("it can write in %q, want %q", s.Written, want)
	}
	if _, err := os.Stat(filepath.Join(tree.Writable[0], "new")); err != nil {
		t.Error(err)
	}
	if len(s.Refused) != 4 {
		t.Errorf("only %q can't be written", s.Refused)
	}
	if _, err := os.Stat("/scratch"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the host has what is only in the tree: %v", err)
	}
	if text, err := os.ReadFile("/proc/self/comm"); len(text) == 0 {
		t.Errorf("the host's files are hidden: %v", err)
	}
}

// TestWhatIsMissing: a tree that can't be made leaves the files as they were.
func TestWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	s := enterAs(t, Tree{ReadOnly: []string{dir}, Program: "/nowhere/nothing"}, true)
	if s.Err != "/paracuda: no such file or directory" {
		t.Errorf("error %q", s.Err)
	}
	if !slices.Contains(s.Root, "etc") {
		t.Errorf("the root has %q", s.Root)
	}
}

// enterAs has a child enter a tree in namespaces of its own, with a user namespace or as root.
func enterAs(t *testing.T, tree Tree, ofUser bool) (s seen) {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), treeVariable+"="+string(text))
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	if ofUser {
		err = sandbox.InUserNamespace(c.SysProcAttr)
	}
	var out []byte
	if err == nil {
		out, err = c.Output()
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skipf("no namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}
