/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Part of paracuda-test.c: the requests of random.h as inputs choose them, for a fuzzer on the host
 * (tests/fuzzdriver_test.go). Standard input has, for each input, its length and its bytes. Each is
 * tried by a process of its own, which may leave anything behind that ends with it. After each one
 * it is printed how its requests ended and what the kernel has said, and "done". An input of no
 * bytes asks whether all is as it was in the beginning.
 */

#define INPUT_MOST	4096	/* bytes */
#define INPUT_REQUESTS	50	/* of an input: the engine waits 10 seconds for it */
#define INPUT_LINE	2048	/* bytes of what the kernel says at a time */

/* What the first byte of an input says. */
#define INPUT_WILD	1	/* it writes what it likes into its arenas */
#define INPUT_CHANNEL	2	/* it begins with a channel whose worker has greeted */
#define INPUT_USER	4	/* it has no privileges */

/* How the requests of an input ended: what the process shares with the one that reads inputs. */
static struct input_report {
	int requests;
	struct {
		int action, error;
	} made[INPUT_REQUESTS];
} *input_report;

/* Does what an input says, and ends this process. */
static void input_process(const unsigned char *input, size_t bytes)
{
	static struct random_thread r;
	unsigned int how;

	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	r.input = input;
	r.left = bytes;
	how = below(&r, 256);
	mine.wild = how & INPUT_WILD;
	r.scratch = random_scratch();
	random_begin();
	if (how & INPUT_CHANNEL)
		random_channel();
	if (how & INPUT_USER && setuid(ONE))
		_exit(1);
	random_open_faults(&r);
	while (r.left && input_report->requests < INPUT_REQUESTS) {
		int i = input_report->requests++;
		int action = below(&r, RANDOM_ACTIONS);

		input_report->made[i].action = action;
		input_report->made[i].error = random_request(&r, action) ? errno : 0;
	}
	_exit(0);
}

/* Waits for a process, at first as long as it may take, then until it is killed. */
static int input_ends(pid_t pid)
{
	double end = now() + RANDOM_END;
	int killed = 0;

	while (waitpid(pid, NULL, WNOHANG) != pid) {
		if (now() > end && killed++)
			return 0;
		if (now() > end) {
			end += RANDOM_END;
			kill(pid, SIGKILL);
		}
		usleep(200);
	}
	return 1;
}

static void try_input(const unsigned char *input, size_t bytes)
{
	pid_t pid;
	int i;

	memset(input_report, 0, sizeof(*input_report));
	fflush(stdout);
	pid = fork();
	if (!pid)
		input_process(input, bytes);
	if (pid < 0 || !input_ends(pid))
		check(0, "the input's process ends");
	printf("made");
	for (i = 0; i < input_report->requests && i < INPUT_REQUESTS; i++)
		printf(" %d:%d", input_report->made[i].action, input_report->made[i].error);
	printf("\n");
}

/* Prints what the kernel has said since it was last asked. */
static void kernel_says(int log)
{
	char line[INPUT_LINE];
	ssize_t n;

	while ((n = read(log, line, sizeof(line) - 1)) > 0 || errno == EPIPE) {
		if (n > 0)
			printf("kernel: %.*s\n", (int)strcspn(line, "\n"), line);
	}
}

static int read_input(unsigned char *input, __u32 *bytes)
{
	return fread(bytes, sizeof(*bytes), 1, stdin) == 1 && *bytes <= INPUT_MOST &&
	       (!*bytes || fread(input, *bytes, 1, stdin) == 1);
}

static void all_inputs(void)
{
	static unsigned char input[INPUT_MOST];
	int channels = free_channels(), log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	__u32 bytes;

	check(log >= 0, "the kernel's log is there");
	lseek(log, 0, SEEK_END);
	random_prepare();
	input_report = mmap(NULL, sizeof(*input_report), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	printf("ready\n");
	while (read_input(input, &bytes)) {
		if (bytes) {
			try_input(input, bytes);
		} else {
			random_settled(channels);
			if (!access(FAULTS_DEBUGFS "/kmemleak", W_OK))
				leaks();
		}
		kernel_says(log);
		printf("done\n");
	}
}
