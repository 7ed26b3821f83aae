// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/seccomp"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// parents are the roles that execute programs. A filter also holds for the programs that they
// execute. So they may make all calls that a program needs until it has the filter of its own role,
// for instance NVIDIA's driver in a worker that starts. Other calls end them, as in other roles.
const parents = sandbox.Keeper | sandbox.StarterProcess

// namespaces are the flags of clone that make namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// named is a system call.
type named struct {
	name   string
	number uintptr
}

// group is calls that parents may make, for one reason.
type group struct {
	why    string
	roles  sandbox.Role
	rule   seccomp.SyscallRule // of the arguments; nil: any
	answer unix.Errno          // as a call's
	calls  []named
}

// groups is the one description of what parents may ask the kernel for.
var groups = []group{
	{why: "programs are executed, and awaited", roles: parents, calls: []named{
		{"execve", unix.SYS_EXECVE}, {"vfork", unix.SYS_VFORK}, {"fork", unix.SYS_FORK},
		{"wait4", unix.SYS_WAIT4}, {"waitid", unix.SYS_WAITID},
		{"arch_prctl", unix.SYS_ARCH_PRCTL}, {"set_tid_address", unix.SYS_SET_TID_ADDRESS},
		{"setpgid", unix.SYS_SETPGID}, {"setsid", unix.SYS_SETSID},
		{"personality", unix.SYS_PERSONALITY}, {"mseal", unix.SYS_MSEAL},
		{"exit", unix.SYS_EXIT}, {"exit_group", unix.SYS_EXIT_GROUP},
	}},
	{why: "signals to them", roles: parents, calls: []named{
		{"kill", unix.SYS_KILL}, {"tkill", unix.SYS_TKILL}, {"tgkill", unix.SYS_TGKILL},
		{"pidfd_open", unix.SYS_PIDFD_OPEN},
		{"pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL},
	}},
	{why: "who a process is, and what it has", roles: parents, calls: []named{
		{"getpid", unix.SYS_GETPID}, {"getppid", unix.SYS_GETPPID}, {"gettid", unix.SYS_GETTID},
		{"getpgrp", unix.SYS_GETPGRP}, {"getpgid", unix.SYS_GETPGID},
		{"getsid", unix.SYS_GETSID}, {"getuid", unix.SYS_GETUID},
		{"geteuid", unix.SYS_GETEUID}, {"getgid", unix.SYS_GETGID},
		{"getegid", unix.SYS_GETEGID}, {"getgroups", unix.SYS_GETGROUPS},
		{"getresuid", unix.SYS_GETRESUID}, {"getresgid", unix.SYS_GETRESGID},
		{"capget", unix.SYS_CAPGET}, {"uname", unix.SYS_UNAME}, {"sysinfo", unix.SYS_SYSINFO},
		{"getrusage", unix.SYS_GETRUSAGE}, {"times", unix.SYS_TIMES},
		{"getcpu", unix.SYS_GETCPU}, {"getrlimit", unix.SYS_GETRLIMIT},
		{"getpriority", unix.SYS_GETPRIORITY}, {"getrandom", unix.SYS_GETRANDOM},
	}},
	{why: "it gives up what it doesn't need", roles: parents, calls: []named{
		{"prctl", unix.SYS_PRCTL}, {"capset", unix.SYS_CAPSET}, {"seccomp", unix.SYS_SECCOMP},
		{"landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET},
		{"landlock_add_rule", unix.SYS_LANDLOCK_ADD_RULE},
		{"landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF},
		{"close_range", unix.SYS_CLOSE_RANGE}, {"umask", unix.SYS_UMASK},
	}},
	{
		why: "limits of itself", roles: parents, rule: seccomp.PerArg{seccomp.EqualTo(0)},
		calls: []named{{"prlimit64", unix.SYS_PRLIMIT64}},
	},
	{why: "limits of itself", roles: parents, calls: []named{
		{"setrlimit", unix.SYS_SETRLIMIT}, {"setpriority", unix.SYS_SETPRIORITY},
	}},
	{
		why: "threads, and children in a user namespace", roles: sandbox.Keeper,
		calls: []named{{"clone", unix.SYS_CLONE}},
	},
	{
		why: "threads and children, without namespaces", roles: sandbox.StarterProcess,
		rule:  seccomp.PerArg{seccomp.MaskedEqual(namespaces, 0)},
		calls: []named{{"clone", unix.SYS_CLONE}},
	},
	{
		why: "glibc then uses clone", roles: parents, answer: unix.ENOSYS,
		calls: []named{{"clone3", unix.SYS_CLONE3}},
	},
	{why: "threads", roles: parents, calls: []named{
		{"futex", unix.SYS_FUTEX}, {"futex_waitv", unix.SYS_FUTEX_WAITV},
		{"set_robust_list", unix.SYS_SET_ROBUST_LIST},
		{"get_robust_list", unix.SYS_GET_ROBUST_LIST}, {"rseq", unix.SYS_RSEQ},
		{"membarrier", unix.SYS_MEMBARRIER}, {"sched_yield", unix.SYS_SCHED_YIELD},
		{"sched_getaffinity", unix.SYS_SCHED_GETAFFINITY},
		{"sched_setaffinity", unix.SYS_SCHED_SETAFFINITY},
		{"sched_getparam", unix.SYS_SCHED_GETPARAM},
		{"sched_setparam", unix.SYS_SCHED_SETPARAM},
		{"sched_getscheduler", unix.SYS_SCHED_GETSCHEDULER},
		{"sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER},
		{"sched_getattr", unix.SYS_SCHED_GETATTR}, {"sched_setattr", unix.SYS_SCHED_SETATTR},
		{"sched_rr_get_interval", unix.SYS_SCHED_RR_GET_INTERVAL},
		{"sched_get_priority_max", unix.SYS_SCHED_GET_PRIORITY_MAX},
		{"sched_get_priority_min", unix.SYS_SCHED_GET_PRIORITY_MIN},
	}},
	{why: "signals to itself, and timers", roles: parents, calls: []named{
		{"rt_sigaction", unix.SYS_RT_SIGACTION}, {"rt_sigprocmask", unix.SYS_RT_SIGPROCMASK},
		{"rt_sigreturn", unix.SYS_RT_SIGRETURN}, {"rt_sigpending", unix.SYS_RT_SIGPENDING},
		{"rt_sigsuspend", unix.SYS_RT_SIGSUSPEND},
		{"rt_sigtimedwait", unix.SYS_RT_SIGTIMEDWAIT}, {"sigaltstack", unix.SYS_SIGALTSTACK},
		{"restart_syscall", unix.SYS_RESTART_SYSCALL}, {"pause", unix.SYS_PAUSE},
		{"alarm", unix.SYS_ALARM}, {"setitimer", unix.SYS_SETITIMER},
		{"getitimer", unix.SYS_GETITIMER}, {"timer_create", unix.SYS_TIMER_CREATE},
		{"timer_settime", unix.SYS_TIMER_SETTIME}, {"timer_gettime", unix.SYS_TIMER_GETTIME},
		{"timer_delete", unix.SYS_TIMER_DELETE}, {"timer_getoverrun", unix.SYS_TIMER_GETOVERRUN},
		{"timerfd_create", unix.SYS_TIMERFD_CREATE},
		{"timerfd_settime", unix.SYS_TIMERFD_SETTIME},
		{"timerfd_gettime", unix.SYS_TIMERFD_GETTIME}, {"signalfd4", unix.SYS_SIGNALFD4},
		{"nanosleep", unix.SYS_NANOSLEEP}, {"clock_nanosleep", unix.SYS_CLOCK_NANOSLEEP},
		{"clock_gettime", unix.SYS_CLOCK_GETTIME}, {"clock_getres", unix.SYS_CLOCK_GETRES},
		{"gettimeofday", unix.SYS_GETTIMEOFDAY}, {"time", unix.SYS_TIME},
	}},
	{why: "memory; libraries are loaded, and have code", roles: parents, calls: []named{
		{"mmap", unix.SYS_MMAP}, {"mprotect", unix.SYS_MPROTECT}, {"munmap", unix.SYS_MUNMAP},
		{"mremap", unix.SYS_MREMAP}, {"madvise", unix.SYS_MADVISE}, {"brk", unix.SYS_BRK},
		{"msync", unix.SYS_MSYNC}, {"mincore", unix.SYS_MINCORE}, {"mlock", unix.SYS_MLOCK},
		{"mlock2", unix.SYS_MLOCK2}, {"munlock", unix.SYS_MUNLOCK},
		{"memfd_create", unix.SYS_MEMFD_CREATE}, {"mbind", unix.SYS_MBIND},
		{"get_mempolicy", unix.SYS_GET_MEMPOLICY}, {"set_mempolicy", unix.SYS_SET_MEMPOLICY},
	}},
	{why: "NVIDIA's MPS", roles: parents, calls: []named{
		{"shmget", unix.SYS_SHMGET}, {"shmat", unix.SYS_SHMAT}, {"shmctl", unix.SYS_SHMCTL},
		{"shmdt", unix.SYS_SHMDT},
	}},
	{why: "files", roles: parents, calls: []named{
		{"read", unix.SYS_READ}, {"readv", unix.SYS_READV}, {"pread64", unix.SYS_PREAD64},
		{"preadv", unix.SYS_PREADV}, {"preadv2", unix.SYS_PREADV2}, {"write", unix.SYS_WRITE},
		{"writev", unix.SYS_WRITEV}, {"pwrite64", unix.SYS_PWRITE64},
		{"pwritev", unix.SYS_PWRITEV}, {"pwritev2", unix.SYS_PWRITEV2},
		{"open", unix.SYS_OPEN}, {"openat", unix.SYS_OPENAT}, {"creat", unix.SYS_CREAT},
		{"close", unix.SYS_CLOSE}, {"lseek", unix.SYS_LSEEK}, {"stat", unix.SYS_STAT},
		{"lstat", unix.SYS_LSTAT}, {"fstat", unix.SYS_FSTAT},
		{"newfstatat", unix.SYS_NEWFSTATAT}, {"statx", unix.SYS_STATX},
		{"statfs", unix.SYS_STATFS}, {"fstatfs", unix.SYS_FSTATFS},
		{"access", unix.SYS_ACCESS}, {"faccessat", unix.SYS_FACCESSAT},
		{"faccessat2", unix.SYS_FACCESSAT2}, {"getdents", unix.SYS_GETDENTS},
		{"getdents64", unix.SYS_GETDENTS64}, {"readlink", unix.SYS_READLINK},
		{"readlinkat", unix.SYS_READLINKAT}, {"getcwd", unix.SYS_GETCWD},
		{"getxattr", unix.SYS_GETXATTR}, {"lgetxattr", unix.SYS_LGETXATTR},
		{"fgetxattr", unix.SYS_FGETXATTR}, {"dup", unix.SYS_DUP}, {"dup2", unix.SYS_DUP2},
		{"dup3", unix.SYS_DUP3}, {"fcntl", unix.SYS_FCNTL}, {"flock", unix.SYS_FLOCK},
		{"fsync", unix.SYS_FSYNC}, {"fdatasync", unix.SYS_FDATASYNC},
		{"ftruncate", unix.SYS_FTRUNCATE}, {"truncate", unix.SYS_TRUNCATE},
		{"fallocate", unix.SYS_FALLOCATE}, {"fadvise64", unix.SYS_FADVISE64},
		{"sendfile", unix.SYS_SENDFILE}, {"splice", unix.SYS_SPLICE},
		{"copy_file_range", unix.SYS_COPY_FILE_RANGE}, {"chdir", unix.SYS_CHDIR},
		{"fchdir", unix.SYS_FCHDIR}, {"ioctl", unix.SYS_IOCTL},
	}},
	{why: "the driver's cache and its links to devices; sockets are removed", roles: parents,
		calls: []named{
			{"mkdir", unix.SYS_MKDIR}, {"mkdirat", unix.SYS_MKDIRAT}, {"rmdir", unix.SYS_RMDIR},
			{"rename", unix.SYS_RENAME}, {"renameat", unix.SYS_RENAMEAT},
			{"renameat2", unix.SYS_RENAMEAT2}, {"link", unix.SYS_LINK},
			{"linkat", unix.SYS_LINKAT}, {"unlink", unix.SYS_UNLINK},
			{"unlinkat", unix.SYS_UNLINKAT}, {"symlink", unix.SYS_SYMLINK},
			{"symlinkat", unix.SYS_SYMLINKAT}, {"chmod", unix.SYS_CHMOD},
			{"fchmod", unix.SYS_FCHMOD}, {"fchmodat", unix.SYS_FCHMODAT},
			{"fchmodat2", unix.SYS_FCHMODAT2}, {"utimensat", unix.SYS_UTIMENSAT},
		}},
	{why: "the group of the front end's socket", roles: sandbox.Keeper, calls: []named{
		{"chown", unix.SYS_CHOWN}, {"lchown", unix.SYS_LCHOWN}, {"fchown", unix.SYS_FCHOWN},
		{"fchownat", unix.SYS_FCHOWNAT},
	}},
	{
		why:   "the driver tries to make missing devices, and goes on",
		roles: parents, answer: unix.EACCES,
		calls: []named{{"mknod", unix.SYS_MKNOD}, {"mknodat", unix.SYS_MKNODAT}},
	},
	{
		why:   "libraries try these, and do without them",
		roles: parents, answer: unix.ENOSYS,
		calls: []named{
			{"inotify_init", unix.SYS_INOTIFY_INIT}, {"inotify_init1", unix.SYS_INOTIFY_INIT1},
			{"move_pages", unix.SYS_MOVE_PAGES}, {"migrate_pages", unix.SYS_MIGRATE_PAGES},
			{"set_mempolicy_home_node", unix.SYS_SET_MEMPOLICY_HOME_NODE},
			{"mlockall", unix.SYS_MLOCKALL}, {"io_setup", unix.SYS_IO_SETUP},
			{"semget", unix.SYS_SEMGET}, {"msgget", unix.SYS_MSGGET},
			{"mq_open", unix.SYS_MQ_OPEN}, {"kcmp", unix.SYS_KCMP},
			{"ioprio_get", unix.SYS_IOPRIO_GET}, {"ioprio_set", unix.SYS_IOPRIO_SET},
			{"readahead", unix.SYS_READAHEAD}, {"listxattr", unix.SYS_LISTXATTR},
			{"llistxattr", unix.SYS_LLISTXATTR}, {"flistxattr", unix.SYS_FLISTXATTR},
			{"statmount", unix.SYS_STATMOUNT}, {"listmount", unix.SYS_LISTMOUNT},
			{"lsm_get_self_attr", unix.SYS_LSM_GET_SELF_ATTR},
			{"map_shadow_stack", unix.SYS_MAP_SHADOW_STACK},
			{"rt_sigqueueinfo", unix.SYS_RT_SIGQUEUEINFO},
			{"rt_tgsigqueueinfo", unix.SYS_RT_TGSIGQUEUEINFO}, {"sync", unix.SYS_SYNC},
			{"syncfs", unix.SYS_SYNCFS}, {"sync_file_range", unix.SYS_SYNC_FILE_RANGE},
			{"utime", unix.SYS_UTIME}, {"utimes", unix.SYS_UTIMES},
			{"futimesat", unix.SYS_FUTIMESAT}, {"pkey_alloc", unix.SYS_PKEY_ALLOC},
			{"pkey_free", unix.SYS_PKEY_FREE}, {"pkey_mprotect", unix.SYS_PKEY_MPROTECT},
			{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT}, {"tee", unix.SYS_TEE},
			{"vmsplice", unix.SYS_VMSPLICE}, {"cachestat", unix.SYS_CACHESTAT},
			{"lsm_list_modules", unix.SYS_LSM_LIST_MODULES},
		},
	},
	{
		why: "local sockets, and those for the kernel's events", roles: parents,
		rule: seccomp.Or{
			seccomp.PerArg{seccomp.EqualTo(unix.AF_UNIX)},
			seccomp.PerArg{seccomp.EqualTo(unix.AF_NETLINK)},
		},
		calls: []named{{"socket", unix.SYS_SOCKET}},
	},
	{
		why: "other sockets: look-ups of a group may try", roles: parents, answer: unix.EACCES,
		calls: []named{{"socket", unix.SYS_SOCKET}},
	},
	{
		why: "wake-ups", roles: parents, rule: local,
		calls: []named{{"socketpair", unix.SYS_SOCKETPAIR}},
	},
	{why: "messages, and the VM's sockets", roles: parents, calls: []named{
		{"bind", unix.SYS_BIND}, {"listen", unix.SYS_LISTEN}, {"accept", unix.SYS_ACCEPT},
		{"accept4", unix.SYS_ACCEPT4}, {"connect", unix.SYS_CONNECT},
		{"sendto", unix.SYS_SENDTO}, {"recvfrom", unix.SYS_RECVFROM},
		{"sendmsg", unix.SYS_SENDMSG}, {"recvmsg", unix.SYS_RECVMSG},
		{"sendmmsg", unix.SYS_SENDMMSG}, {"recvmmsg", unix.SYS_RECVMMSG},
		{"shutdown", unix.SYS_SHUTDOWN}, {"getsockname", unix.SYS_GETSOCKNAME},
		{"getpeername", unix.SYS_GETPEERNAME}, {"getsockopt", unix.SYS_GETSOCKOPT},
		{"setsockopt", unix.SYS_SETSOCKOPT},
	}},
	{why: "waiting for several things", roles: parents, calls: []named{
		{"poll", unix.SYS_POLL}, {"ppoll", unix.SYS_PPOLL}, {"select", unix.SYS_SELECT},
		{"pselect6", unix.SYS_PSELECT6}, {"epoll_create1", unix.SYS_EPOLL_CREATE1},
		{"epoll_create", unix.SYS_EPOLL_CREATE}, {"epoll_ctl", unix.SYS_EPOLL_CTL},
		{"epoll_wait", unix.SYS_EPOLL_WAIT}, {"epoll_pwait", unix.SYS_EPOLL_PWAIT},
		{"epoll_pwait2", unix.SYS_EPOLL_PWAIT2}, {"eventfd2", unix.SYS_EVENTFD2},
		{"eventfd", unix.SYS_EVENTFD},
		{"pipe", unix.SYS_PIPE}, {"pipe2", unix.SYS_PIPE2},
	}},
	{why: "the VM's namespaces and its own tree of files", roles: sandbox.Keeper, calls: []named{
		{"unshare", unix.SYS_UNSHARE}, {"mount", unix.SYS_MOUNT},
		{"umount2", unix.SYS_UMOUNT2}, {"pivot_root", unix.SYS_PIVOT_ROOT},
		{"fsopen", unix.SYS_FSOPEN}, {"fsconfig", unix.SYS_FSCONFIG},
		{"fsmount", unix.SYS_FSMOUNT}, {"open_tree", unix.SYS_OPEN_TREE},
		{"move_mount", unix.SYS_MOVE_MOUNT}, {"mount_setattr", unix.SYS_MOUNT_SETATTR},
		{"openat2", unix.SYS_OPENAT2},
	}},
}

// The numbers of calls that later kernels have, or will have. A library that tries one can do
// without it, as on an older kernel.
const firstLater, lastLater = unix.SYS_MSEAL + 1, 511

// all are the calls of all roles.
func all() []call {
	list := calls[:len(calls):len(calls)]
	for _, g := range groups {
		for _, n := range g.calls {
			list = append(list, call{
				number: n.number, name: n.name, roles: g.roles, why: g.why, rule: g.rule,
				answer: g.answer,
			})
		}
	}
	for n := uintptr(firstLater); n <= lastLater; n++ {
		list = append(list, call{
			number: n, name: fmt.Sprint(n), roles: parents, why: "of later kernels",
			answer: unix.ENOSYS,
		})
	}
	return list
}
