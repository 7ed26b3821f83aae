// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

// gone is the line about files in a folder that were lost when the VM ended.
func gone(files int, dir string) string {
	noun := "files"
	if files == 1 {
		noun = "file"
	}
	return fmt.Sprintf("paracuda: gone with the VM: %d %s in %q "+
		"(--write DIR keeps what is written below DIR)\n", files, noun, dir)
}

// workDir makes a folder with one file, sub/old. A guest can write to it only because it is the
// program's current folder: it isn't below /tmp.
func workDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(logDir(t), "work")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/old"), []byte("old\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	return dir
}

// listing lists the short files below a folder, with their modes and texts.
func listing(t *testing.T, dir string) string {
	t.Helper()
	r := command(t, time.Minute, dir, "find", ".", "-type", "f", "-size", "-2",
		"-printf", "%P %m ", "-exec", "cat", "{}", ";")
	return r.stdout
}

// socketScript talks to itself through UNIX sockets at these paths.
const socketScript = `
import os, socket, sys
for path in sys.argv[1:]:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen()
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(path)
    client.send(b"through " + os.path.basename(path).encode())
    print(server.accept()[0].recv(100).decode())
`

// TestWritesEndWithTheVM runs a program that writes to its current folder. The host's files stay as
// they are, and a line says how many are lost.
func TestWritesEndWithTheVM(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		dir := workDir(t)
		script := "set -e; echo new >result.dat; echo more >>sub/old; cat result.dat sub/old; " +
			"mkdir sub/a sub/b; mv sub/old sub/a; echo x >sub/b/x; echo x >removed; rm removed"
		r := vm.startIn(t, within(vm.boot+vm.limit), dir, "--", "sh", "-c", script)
		if r.exit != 0 || r.stdout != "new\nold\nmore\n" || r.stderr != gone(3, dir) {
			t.Errorf("exit code %d, output %q, errors %q", r.exit, r.stdout, r.stderr)
		}
		if got := listing(t, dir); got != "sub/old 640 old\n" {
			t.Errorf("the host's files are now %q, want them unchanged", got)
		}
	})
}

// TestSocketsAndCaches makes UNIX sockets in the current folder and in one that is kept, and files
// in caches. No line says that they are lost.
func TestSocketsAndCaches(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		dir := workDir(t)
		kept := filepath.Join(dir, "kept")
		script := "mkdir -p .cache __pycache__ ~/.cache/x && " +
			"touch .cache/c __pycache__/c ~/.cache/x/y && exec python3 -c \"$1\" socket kept/socket"
		r := vm.startIn(t, within(vm.boot+vm.limit), dir, "--write", "kept",
			"--", "sh", "-c", script, "sh", socketScript)
		if r.exit != 0 || r.stdout != "through socket\nthrough socket\n" || r.stderr != "" {
			t.Errorf("exit code %d, output %q, errors %q", r.exit, r.stdout, r.stderr)
		}
		info, err := os.Stat(filepath.Join(kept, "socket"))
		if err != nil || info.Mode().Type() != os.ModeSocket {
			t.Errorf("the socket that is kept: %v, %v, want a socket", info, err)
		}
	})
}

// TestWriteKeeps has the host keep what is written below two folders, one of which doesn't exist
// yet.
func TestWriteKeeps(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		dir := workDir(t)
		script := "set -e; echo new >made/it/result.dat; echo more >>sub/old; mkdir sub/a; " +
			"mv sub/old sub/a/moved; umask 077; echo mine >sub/private; " +
			"head -c 30000000 /dev/zero >made/it/large; echo lost >lost"
		args := []string{"--write", "made/it", "--write", filepath.Join(dir, "sub"),
			"--", "sh", "-c", script}
		r := vm.startIn(t, within(vm.boot+vm.limit), dir, args...)
		if r.exit != 0 || r.stdout != "" || r.stderr != gone(1, dir) {
			t.Errorf("exit code %d, output %q, errors %q", r.exit, r.stdout, r.stderr)
		}
		got := strings.Split(strings.TrimSpace(listing(t, dir)), "\n")
		want := map[string]bool{"made/it/result.dat 644 new": true, "sub/a/moved 640 old": true,
			"more": true, "sub/private 600 mine": true}
		for _, line := range got {
			if !want[line] {
				t.Errorf("the host has %q, which it shouldn't", line)
			}
			delete(want, line)
		}
		if len(want) > 0 {
			t.Errorf("the host lacks %v: it has %q", want, got)
		}
		info, err := os.Stat(filepath.Join(dir, "made/it/large"))
		if err != nil || info.Size() != 30000000 {
			t.Errorf("the large file: %v, %v, want 30000000 bytes", info, err)
		}
		r = vm.startIn(t, within(vm.boot+vm.limit), dir, "--log-level", "error",
			"--", "sh", "-c", "echo lost >lost")
		if r.exit != 0 || r.stderr != "" {
			t.Errorf("with --log-level error: exit code %d, errors %q", r.exit, r.stderr)
		}
	})
}

// TestStartedBelowAMount runs a program in a folder that is a mount below the home folder. Guests
// can write to both.
func TestStartedBelowAMount(t *testing.T) {
	t.Parallel()
	if r := command(t, time.Minute, root, "unshare", "-m", "true"); r.exit != 0 {
		skip(t, "no mounts of its own for a process here: %s", r.stderr)
	}
	cache := "PARACUDA_CACHE=" + vm.FindAssets().Cache
	inEach(t, func(t *testing.T, vm frontEnd) {
		home := workDir(t)
		disk := filepath.Join(home, "sub/disk")
		for _, d := range []string{disk, filepath.Join(home, "sub/data")} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		mounts := "mount -t tmpfs disk sub/disk && mount -t tmpfs data sub/data && " +
			"echo there >sub/data/file && cd sub/disk && echo old >old && exec \"$@\""
		script := "cat old ~/sub/data/file && echo new >new && echo more >>old && " +
			"cat new old && pwd && ls ~/sub"
		r := command(t, vm.boot+vm.limit, home, "env", "HOME="+home, cache,
			"unshare", "-m", "sh", "-c", mounts, "sh", paracuda, "run", "--vm", vm.name,
			"--gpu", "soft", "--log-level", "error", "--", "sh", "-c", script)
		want := "old\nthere\nnew\nold\nmore\n" + disk + "\ndata\ndisk\nold\n"
		if r.exit != 0 || r.stdout != want {
			t.Errorf("exit code %d, output %q, not %q, errors %q", r.exit, r.stdout, want, r.stderr)
		}
	})
}

// TestOwnLibraryPath: programs find our libraries with another LD_LIBRARY_PATH, and without one.
func TestOwnLibraryPath(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		script := "LD_LIBRARY_PATH=/nowhere \"$1\" && env -i python3 -c \"$2\""
		load := "from ctypes import CDLL\n" +
			"print(CDLL('libcuda.so').cuInit(0), CDLL('libnvidia-ml.so.1').nvmlInit())"
		r := vm.run(t, vm.limit, "--", "sh", "-c", script, "sh",
			filepath.Join(programs, "vectoradd"), load)
		if r.exit != 0 || !strings.HasSuffix(r.stdout, "\n0 0\n") {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
	})
}

// fillScript writes more than a megabyte through a mapping, where no call fails if there is no
// room.
const fillScript = `
import mmap
f = open("full/file", "w+b")
f.truncate(4 << 20)
m = mmap.mmap(f.fileno(), 4 << 20)
m[:] = b"x" * (4 << 20)
print("written")
`

// TestWriteOnAFullDisk runs a program that writes more than the host can keep. paracuda run fails.
func TestWriteOnAFullDisk(t *testing.T) {
	t.Parallel()
	if r := command(t, time.Minute, root, "unshare", "-m", "true"); r.exit != 0 {
		skip(t, "no mounts of its own for a process here: %s", r.stderr)
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		dir := workDir(t)
		if err := os.Mkdir(filepath.Join(dir, "full"), 0o755); err != nil {
			t.Fatal(err)
		}
		r := command(t, vm.boot+vm.limit, dir, "unshare", "-m", "sh", "-c",
			"mount -t tmpfs -o size=1M full full && exec \"$@\"", "sh", paracuda, "run", "--vm",
			vm.name,
			"--gpu", "soft", "--write", "full", "--", "python3", "-c", fillScript)
		want := "keep what was written below " + dir + "/full: No space left on device\n"
		if r.exit != 1 || r.stdout != "written\n" || !strings.HasSuffix(r.stderr, want) {
			t.Errorf("exit code %d, output %q, errors %q", r.exit, r.stdout, r.stderr)
		}
	})
}
