#include "sim_mem.h"

#include "base/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before each allocation; keeps the alignment of malloc. */
struct head {
    struct list link;
    size_t size;
    unsigned owner;
} __attribute__((aligned(16)));

/* Pages. Their head lies apart, because their place is a multiple of their size. */
struct map {
    struct list link;
    void *pages;
};

static struct list held[MEM_OWNERS], maps[MEM_OWNERS];
static uint64_t counts[MEM_OWNERS];
static unsigned current;
static uint64_t fail_countdown;

static void own(struct head *head, size_t size)
{
    if (held[current].next == NULL)
        list_init(&held[current]);
    head->size = size;
    head->owner = current;
    list_push(&held[current], &head->link);
    counts[current]++;
}

static void disown(struct head *head)
{
    ASSERT(counts[head->owner] != 0);
    counts[head->owner]--;
    list_remove(&head->link);
}

unsigned sim_mem_owner(unsigned owner)
{
    unsigned before = current;
    ASSERT(owner < MEM_OWNERS);
    current = owner;
    return before;
}

static void map_free(struct map *map)
{
    list_remove(&map->link);
    free(map->pages);
    free(map);
}

void sim_mem_drop(unsigned owner)
{
    struct list *link;
    while (maps[owner].next != NULL && !list_empty(&maps[owner]))
        map_free(CONTAINER_OF(maps[owner].next, struct map, link));
    if (held[owner].next == NULL)
        return;
    while ((link = list_pop(&held[owner])) != NULL)
        free(CONTAINER_OF(link, struct head, link));
    counts[owner] = 0;
}

uint64_t sim_mem_count(unsigned owner)
{
    return counts[owner];
}

static bool fail_now(void)
{
    return fail_countdown != 0 && --fail_countdown == 0;
}

static void *take(size_t size)
{
    struct head *head = malloc(sizeof *head + size);
    if (head == NULL)
        return NULL;
    own(head, size);
    return head + 1;
}

void *mem_alloc(size_t size)
{
    return fail_now() ? NULL : take(size);
}

void *mem_zalloc(size_t size)
{
    void *pointer = mem_alloc(size);
    if (pointer != NULL)
        memset(pointer, 0, size);
    return pointer;
}

void *mem_realloc(void *old, size_t size)
{
    if (old == NULL)
        return mem_alloc(size);
    struct head *head = (struct head *)old - 1;
    void *pointer = mem_alloc(size);
    if (pointer == NULL)
        return NULL;
    memcpy(pointer, old, MIN(head->size, size));
    mem_free(old);
    return pointer;
}

char *mem_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = mem_alloc(size);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

void mem_free(void *pointer)
{
    if (pointer == NULL)
        return;
    struct head *head = (struct head *)pointer - 1;
    disown(head);
    free(head);
}

static void *must(void *pointer)
{
    if (pointer == NULL) {
        fputs("out of memory\n", stderr);
        abort();
    }
    return pointer;
}

void *mem_must_alloc(size_t size)
{
    return must(take(size));
}

void *mem_must_realloc(void *old, size_t size)
{
    if (old == NULL)
        return mem_must_alloc(size);
    struct head *head = (struct head *)old - 1;
    disown(head);
    unsigned owner = head->owner, before = current;
    head = must(realloc(head, sizeof *head + size));
    current = owner;
    own(head, size);
    current = before;
    return head + 1;
}

void *mem_must_map(size_t size)
{
    struct map *map = must(malloc(sizeof *map));
    *map = (struct map){.pages = must(aligned_alloc(size, size))};
    if (maps[current].next == NULL)
        list_init(&maps[current]);
    list_push(&maps[current], &map->link);
    counts[current]++;
    return map->pages;
}

/* NULL: nothing is mapped there. */
static struct map *map_of(unsigned owner, const void *pages)
{
    if (maps[owner].next == NULL)
        return NULL;
    LIST_FOR (link, &maps[owner]) {
        struct map *map = CONTAINER_OF(link, struct map, link);
        if (map->pages == pages)
            return map;
    }
    return NULL;
}

void mem_unmap(void *pages, size_t size)
{
    struct map *map = NULL;
    unsigned owner = 0;
    (void)size;
    while (owner < MEM_OWNERS && (map = map_of(owner, pages)) == NULL)
        owner++;
    ASSERT(map != NULL && counts[owner] != 0);
    counts[owner]--;
    map_free(map);
}

void mem_make_huge(void *pages, size_t size)
{
    (void)pages;
    (void)size;
}

void mem_wipe(void *data, size_t size)
{
    if (size != 0)
        explicit_bzero(data, size);
}

bool mem_fail_nth(uint64_t n)
{
    bool used = fail_countdown == 0;
    fail_countdown = n;
    return used;
}
