// A server that streams chat chunks on a schedule and notes when: the other side of client_speed.py. One thread, epoll.
//
//   cc -O2 -o paced_stream paced_stream.c
//   ./paced_stream PORT FIRST_MS INTERVAL_MS TOKENS SHAPE TRUTH
//
// SHAPE: 0 content only · 1 thinking with running usage (vLLM with continuous_usage_stats) · 2 all keys, mostly null (SGLang).
// INTERVAL_MS 0 writes as fast as the client reads. TRUTH: one line a request: its X-Request-Id, when the request was read
// whole, just before its first token was written, and just before its last (CLOCK_MONOTONIC ns).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 16384, ROOM = 8192, OUT = 65536 };

typedef struct Stream {
    struct Stream *after;  // in its queue
    int fd, busy, queued, blocked, written;  // tokens written so far
    int64_t read_ns, begin_ns, first_ns, last_ns;
    char id[80], in[ROOM], *out;
    size_t have, pending, offset;
} Stream;

// Streams wait in order of their due times. Two queues keep that order without sorting: whoever is served joins the end of one,
// and all wait equally long in it (the first token in one, the interval in the other).
typedef struct { Stream *head, *tail; } Queue;

static Stream *streams[CONNECTIONS];
static Queue starting, running;
static int epoll, tokens, shape;
static int64_t first_after, interval;
static FILE *truth;
static volatile sig_atomic_t over;

static void stop(int signal) { (void)signal, over = 1; }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static size_t wrapped(char *to, const char *event) { return sprintf(to, "%zx\r\n%s\r\n", strlen(event), event); }

static size_t token(char *to, int number, int last) {
    static const char *words[] = {" time", " year", " work", " life", " hand", " part", " case", " week"};
    char event[1024];
    const char *word = words[number & 7], *finish = last ? "\"length\"" : "null";
    const char *head = "data: {\"id\":\"chatcmpl-5f3a\",\"object\":\"chat.completion.chunk\",\"created\":1796083200,\"model\":\"mock\","
                       "\"choices\":[{\"index\":0,\"delta\":";
    if (shape == 0)
        sprintf(event, "%s{\"content\":\"%s\"},\"logprobs\":null,\"finish_reason\":%s,\"token_ids\":null}]}\n\n", head, word, finish);
    else if (shape == 1)
        sprintf(event,
                "%s{\"%s\":\"%s\"},\"logprobs\":null,\"finish_reason\":%s,\"token_ids\":null}],\"usage\":{\"prompt_tokens\":12,"
                "\"total_tokens\":%d,\"completion_tokens\":%d,\"completion_tokens_details\":{\"reasoning_tokens\":%d}}}\n\n",
                head, number < tokens / 2 ? "reasoning" : "content", word, finish, 13 + number, 1 + number, number);
    else
        sprintf(event,
                "%s{\"role\":null,\"content\":\"%s\",\"reasoning_content\":null,\"tool_calls\":null},\"logprobs\":null,"
                "\"finish_reason\":%s,\"matched_stop\":null}],\"usage\":null}\n\n",
                head, word, finish);
    return wrapped(to, event);
}

static size_t begin(char *to) {
    size_t n = sprintf(to, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n");
    return n;
}

static size_t role(char *to) {
    return wrapped(to, "data: {\"id\":\"chatcmpl-5f3a\",\"object\":\"chat.completion.chunk\",\"created\":1796083200,\"model\":\"mock\","
                       "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                       "\"finish_reason\":null}]}\n\n");
}

static size_t end(char *to) {
    char event[512];
    sprintf(event,
            "data: {\"id\":\"chatcmpl-5f3a\",\"object\":\"chat.completion.chunk\",\"created\":1796083200,\"model\":\"mock\","
            "\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\n",
            12 + tokens, tokens);
    size_t n = wrapped(to, event);
    n += wrapped(to + n, "data: [DONE]\n\n");
    return n + sprintf(to + n, "0\r\n\r\n");
}

static int64_t due_ns(Stream *s) { return s->begin_ns + s->written * interval; }

static void wait_in(Queue *q, Stream *s) {
    if (s->queued) return;
    s->queued = 1, s->after = NULL;
    if (q->head) q->tail->after = s; else q->head = s;
    q->tail = s;
}

static Stream *leave(Queue *q) {
    Stream *s = q->head;
    q->head = s->after, s->queued = 0;
    return s;
}

static void watch(Stream *s, int blocked) {
    struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.fd = s->fd};
    s->blocked = blocked;
    epoll_ctl(epoll, EPOLL_CTL_MOD, s->fd, &event);
}

static void drop(Stream *s) {  // one that waits in a queue is freed when its turn comes
    if (s->fd >= 0) streams[s->fd] = NULL, close(s->fd);
    s->fd = -1, s->busy = 0;
    if (s->queued) return;
    free(s->out);
    free(s);
}

static int flush_out(Stream *s) {  // 0: all written, 1: the kernel is full, -1: gone
    while (s->pending) {
        ssize_t n = write(s->fd, s->out + s->offset, s->pending);
        if (n < 0 && errno == EAGAIN) return 1;
        if (n < 0) return -1;
        s->offset += n, s->pending -= n;
    }
    s->offset = 0;
    return 0;
}

static void pump(Stream *s) {  // writes what is due; forgets the stream when it is over
    for (;;) {
        int state = flush_out(s);
        if (state < 0) { drop(s); return; }
        if (state > 0) { watch(s, 1); return; }
        if (s->blocked) watch(s, 0);
        if (!s->busy) return;
        if (s->written == tokens) {
            fprintf(truth, "%s\t%lld\t%lld\t%lld\n", s->id, (long long)s->read_ns, (long long)s->first_ns, (long long)s->last_ns);
            s->busy = 0;
            return;
        }
        int64_t t = now();
        int due = t < s->begin_ns ? 0 : interval ? (int)((t - s->begin_ns) / interval) + 1 : tokens;
        if (due > tokens) due = tokens;
        if (due <= s->written) { wait_in(s->written ? &running : &starting, s); return; }
        if (!s->written) s->first_ns = t, s->pending = role(s->out);
        while (s->written < due && s->pending < OUT - 2048) {
            s->pending += token(s->out + s->pending, s->written, s->written + 1 == tokens);
            s->written++;
        }
        if (s->written == tokens) s->last_ns = t, s->pending += end(s->out + s->pending);
    }
}

static void serve(Stream *s) {
    ssize_t n = read(s->fd, s->in + s->have, ROOM - s->have - 1);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN) drop(s);
        return;
    }
    s->have += n;
    s->in[s->have] = 0;
    char *body = strstr(s->in, "\r\n\r\n"), *length = strcasestr(s->in, "content-length:"), *id = strcasestr(s->in, "x-request-id:");
    if (!body || (length && s->have < (size_t)(body + 4 - s->in) + atoi(length + 15))) return;
    s->id[0] = 0;
    if (id) sscanf(id + 13, " %79[^\r]", s->id);
    s->have = 0, s->busy = 1, s->written = 0;
    s->read_ns = now();
    s->begin_ns = s->read_ns + first_after;
    s->pending = begin(s->out);
    pump(s);
}

int main(int count, char **arguments) {
    if (count != 7) return 2;
    first_after = atof(arguments[2]) * 1e6, interval = atof(arguments[3]) * 1e6;
    tokens = atoi(arguments[4]), shape = atoi(arguments[5]), truth = fopen(arguments[6], "w");
    signal(SIGPIPE, SIG_IGN), signal(SIGTERM, stop), prctl(PR_SET_TIMERSLACK, 1);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 4096)) return perror("bind"), 1;
    epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[1024];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    puts("ready"), fflush(stdout);
    while (!over) {
        int64_t next = INT64_MAX, t = now();
        for (;;) {
            Queue *q = !starting.head ? &running : !running.head ? &starting : due_ns(starting.head) < due_ns(running.head) ? &starting : &running;
            if (!q->head) break;
            if (q->head->busy && due_ns(q->head) > t) { next = due_ns(q->head); break; }
            Stream *s = leave(q);
            if (s->busy && !s->blocked) pump(s);
            else if (s->fd < 0) drop(s);
            t = now();
        }
        int64_t wait = next == INT64_MAX ? 200000000 : next - t;
        struct timespec limit = {wait / 1000000000, wait % 1000000000};
        int found = epoll_pwait2(epoll, ready, 1024, &limit, NULL);
        for (int i = 0; i < found; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (fd >= CONNECTIONS) { close(fd); continue; }
                    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    Stream *s = streams[fd] = calloc(1, sizeof *s);
                    s->fd = fd, s->out = malloc(OUT);
                    struct epoll_event fresh = {.events = EPOLLIN, .data.fd = fd};
                    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &fresh);
                }
                continue;
            }
            if (streams[fd] && (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !streams[fd]->busy) serve(streams[fd]);
            else if (streams[fd] && (ready[i].events & (EPOLLHUP | EPOLLERR))) drop(streams[fd]);
            if (streams[fd] && (ready[i].events & EPOLLOUT)) pump(streams[fd]);
        }
    }
    fclose(truth);
    return 0;
}
