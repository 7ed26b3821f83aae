// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// umlLink is the serial line that User Mode Linux connects to descriptor 3.
const umlLink = "/dev/ttyS0"

// startUML starts User Mode Linux with its end of the link. Short links in dir stand for paths that
// its command line can't hold.
func startUML(c *Config, dir string, linkEnd *os.File) (*process, error) {
	kernel, err := c.Assets.UML(c.Machine.Kernel)
	if err != nil {
		return nil, err
	}
	initFile, err := c.Assets.Init()
	if err != nil {
		return nil, err
	}
	if err := shorten(dir, "init", initFile); err != nil {
		return nil, err
	}
	if c.Device.Socket != "" {
		if err := shorten(dir, "device", c.Device.Socket); err != nil {
			return nil, err
		}
	}
	for i, socket := range c.Machine.FileSystems {
		if err := shorten(dir, fileSystem(i), socket); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(kernel, umlArgs(&c.Machine, &c.Device, dir)...)
	cmd.ExtraFiles = []*os.File{linkEnd}
	cmd.Env = []string{"HOME=" + dir, "PATH=" + defaultPath,
		"TMPDIR=" + memoryDir(c.Machine.Memory, dir)}
	return startProcess(cmd, c.Machine.Console)
}

// memoryDir is where User Mode Linux makes the file that is its memory: the host's shared memory if
// that has room, as it often hasn't in containers.
func memoryDir(size int64, otherwise string) string {
	const shared = "/dev/shm"
	var s unix.Statfs_t
	err := unix.Statfs(shared, &s)
	if err != nil || s.Type != unix.TMPFS_MAGIC || int64(s.Bavail)*s.Bsize < size {
		return otherwise
	}
	return shared
}

// shorten makes a link in dir that leads to file.
func shorten(dir, name, file string) error {
	abs, err := filepath.Abs(file)
	if err == nil {
		err = os.Symlink(abs, filepath.Join(dir, name))
	}
	if err != nil {
		return fmt.Errorf("prepare the VM: %w", err)
	}
	return nil
}

// fileSystem is the name of the link to a virtiofsd's socket.
func fileSystem(i int) string { return fmt.Sprintf("fs%d", i) }

// umlArgs is the kernel's command line.
func umlArgs(m *Machine, d *Device, dir string) []string {
	args := []string{
		fmt.Sprintf("mem=%dM", m.Memory>>20),
		fmt.Sprintf("ncpus=%d", m.CPUs),
		"seccomp=on",
		"root=none", "rootfstype=hostfs", "rootflags=/", "ro",
		"uml_dir=" + dir, "umid=vm",
		"con=null", "con0=null,fd:1", "console=tty0",
		"ssl=null", "ssl0=fd:3",
		"panic=-1",
		"init=" + filepath.Join(dir, "init"),
	}
	if !m.Verbose {
		args = append(args, "quiet")
	}
	if d.Socket != "" {
		args = append(args, fmt.Sprintf("virtio_uml.device=%s:%d",
			filepath.Join(dir, "device"), d.VirtioID))
	}
	for i := range m.FileSystems {
		args = append(args, fmt.Sprintf("virtio_uml.device=%s:%d",
			filepath.Join(dir, fileSystem(i)), wire.VirtioIdFs))
	}
	return append(args, "--", "link="+umlLink)
}
