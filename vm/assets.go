// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Assets are the directories that hold the parts of a VM. The Makefile and scripts/ fill both.
type Assets struct {
	Cache string // kernels and QEMU: scripts/deps
	Build string // init, libcuda and the guest driver: make build; "" where there is no source tree
}

// FindAssets finds the directories from the environment (PARACUDA_CACHE,
// PARACUDA_BUILD), beside the running program as in the bundles, in lib/paracuda
// where the program is installed in bin/, or above the current directory.
func FindAssets() Assets {
	return Assets{Cache: findCache(), Build: findBuild()}
}

func findCache() string {
	if dir := os.Getenv("PARACUDA_CACHE"); dir != "" {
		return dir
	}
	if build := findBuild(); build != "" {
		if bundle := filepath.Join(build, "../cache"); exists(bundle) {
			return bundle
		}
	}
	return userCache()
}

// notes is the directory for what is remembered of this machine: Cache, or the user's cache
// directory where Cache came with a package.
func (a Assets) notes() string {
	if unix.Access(a.Cache, unix.W_OK) == nil {
		return a.Cache
	}
	dir := userCache()
	_ = os.MkdirAll(dir, 0o755) // without it nothing is remembered
	return dir
}

func userCache() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = "/var/cache"
	}
	return filepath.Join(base, "paracuda")
}

func findBuild() string {
	if dir := os.Getenv("PARACUDA_BUILD"); dir != "" {
		return dir
	}
	if self, err := os.Executable(); err == nil {
		if dir := buildOf(filepath.Dir(self)); dir != "" {
			return dir
		}
	}
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "guestdriver/init/init.c")) {
			return filepath.Join(dir, "build")
		}
	}
	return ""
}

// buildOf finds the build that belongs to the directory bin of a tree or of a bundle, or to a
// bundle that was unpacked in lib/paracuda beside bin.
func buildOf(bin string) string {
	for _, place := range []string{"../build", "../lib/paracuda/build"} {
		if dir := filepath.Join(bin, place); exists(filepath.Join(dir, "guest")) {
			return dir
		}
	}
	return ""
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// need returns the file if it exists, else an error that names the fix.
func need(what, file, fix string) (string, error) {
	if !exists(file) {
		return "", fmt.Errorf("find %s: there is no %s: %s", what, file, fix)
	}
	return file, nil
}

const (
	runDeps  = "run make deps in the source tree"
	runBuild = "run make build in the source tree"
)

// errNoTree is of a program that is installed alone.
var errNoTree = errors.New("find the VM's parts: " +
	"no source tree is beside this program or above the current directory: " +
	"install the package paracuda-vm, " +
	"or unpack the bundle of make soft-bundle in lib/paracuda beside bin/ (for --vm uml), " +
	"or run make deps build in a source tree, and set PARACUDA_BUILD to its build/")

// built finds one of the files that make build makes.
func (a Assets) built(what, file string) (string, error) {
	if a.Build == "" {
		return "", errNoTree
	}
	return need(what, filepath.Join(a.Build, file), runBuild)
}

// Init is the guests' first process.
func (a Assets) Init() (string, error) {
	return a.built("the guest's init", "guest/init")
}

// LibDir is the directory of the guests' libcuda.so.1.
func (a Assets) LibDir() string {
	return filepath.Join(a.Build, "guest/lib")
}

// UML is the kernel of User Mode Linux: "7.2", "7.2-debug", "7.2-races" or "7.2-threads".
func (a Assets) UML(kernel string) (string, error) {
	dir, err := a.KernelDir(UML, kernel)
	if err != nil {
		return "", err
	}
	return need("User Mode Linux", filepath.Join(dir, "linux"), kernelMend(UML, kernel))
}

// ownQEMU is the variable that names a QEMU of the user's own.
const ownQEMU = "PARACUDA_QEMU"

// QEMU is QEMU's program: $PARACUDA_QEMU, the cache's (which tests use), or the host's own.
func (a Assets) QEMU() (string, error) {
	if file := os.Getenv(ownQEMU); file != "" {
		return need("QEMU", file, "set PARACUDA_QEMU to a QEMU of 7.2 or later, or unset it")
	}
	file := filepath.Join(a.Cache, "qemu-11/qemu-system-x86_64")
	if own, err := exec.LookPath("qemu-system-x86_64"); err == nil && !exists(file) {
		return own, nil
	}
	return need("QEMU", file, "install QEMU (qemu-system-x86), or "+runDeps)
}

// Virtiofsd is the program that shares the host's files with QEMU's guests: the one beside the
// tests' QEMU, or the demo's.
func (a Assets) Virtiofsd() (string, error) {
	file := filepath.Join(a.Cache, "qemu-11/virtiofsd")
	if demo := filepath.Join(a.Cache, "virtiofsd/virtiofsd"); !exists(file) && exists(demo) {
		return demo, nil
	}
	return need("virtiofsd", file, runDeps)
}

// Kernels that find faults of the guest driver while they run, and are slow.
const (
	debugKernel = "7.2-debug" // KASAN, lockdep, kmemleak, and memory that can be made short
	racesKernel = "7.2-races" // KCSAN
)

// threadsKernel is for measurements: the threads of a program run at the same time.
const threadsKernel = "7.2-threads"

// kernels are the guest kernels, as scripts fetch and build them. The first is the default.
var kernels = map[Kind][]string{
	QEMU: {"6.1", "6.12"},
	UML:  {"7.2", debugKernel, racesKernel, threadsKernel},
}

// Kernels are the guest kernels for VMs of that kind, the default first.
func Kernels(kind Kind) []string { return slices.Clone(kernels[kind]) }

// kernelMend says what to do about a missing kernel.
func kernelMend(kind Kind, kernel string) string {
	switch {
	case kernel == debugKernel, kernel == racesKernel:
		return "run make debug-kernel"
	case kernel == threadsKernel:
		return "run make threads-kernel"
	case slices.Contains(kernels[kind], kernel):
		return runDeps
	}
	return "the guest kernels are " + strings.Join(kernels[kind], ", ")
}

// KernelDir is the directory of a guest kernel; "" is the default one.
func (a Assets) KernelDir(kind Kind, kernel string) (string, error) {
	setDefault(&kernel, kernels[kind][0])
	prefix := map[Kind]string{QEMU: "linux-", UML: "uml-"}[kind]
	return need("guest kernel "+kernel, filepath.Join(a.Cache, prefix+kernel),
		kernelMend(kind, kernel))
}

// Release is the full version of a guest kernel; "" is the default one.
func (a Assets) Release(kind Kind, kernel string) (string, error) {
	setDefault(&kernel, kernels[kind][0])
	dir, err := a.KernelDir(kind, kernel)
	if err != nil {
		return "", fmt.Errorf("find the guest kernel: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return "", fmt.Errorf("find the guest kernel: %w: %s", err, kernelMend(kind, kernel))
	}
	return strings.TrimSpace(string(text)), nil
}

// Driver is the guest driver built for that kernel.
func (a Assets) Driver(kind Kind, kernel string) (Module, error) {
	if a.Build == "" {
		return Module{}, errNoTree
	}
	release, err := a.Release(kind, kernel)
	if err != nil {
		return Module{}, err
	}
	file, err := a.built("the guest driver", filepath.Join("modules", release, "paracuda.ko"))
	return Module{File: file}, err
}
