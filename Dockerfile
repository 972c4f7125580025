# syntax=docker/dockerfile:1
#
# The operator's image: one static binary and the certificates of public authorities.
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" .
#
# The same commit gives the same binary: the toolchain is pinned, the lock file is binding, paths of
# the builder are taken out and nothing reads a clock.

ARG RUST=1.95.0
FROM rust:${RUST}-alpine AS build
# ring compiles C and assembly; git is asked for nothing, the version is the workspace's.
RUN apk add --no-cache build-base ca-certificates
WORKDIR /src
COPY . .
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} \
    CARGO_INCREMENTAL=0 \
    CARGO_PROFILE_RELEASE_STRIP=symbols \
    RUSTFLAGS="--remap-path-prefix=/src=. --remap-path-prefix=/usr/local/cargo=cargo"
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package llsd && install -m 0755 target/release/llsd /llsd

FROM scratch
LABEL org.opencontainers.image.title="llsd" \
      org.opencontainers.image.description="Runs LlamaStack servers on Kubernetes from a short resource" \
      org.opencontainers.image.source="https://github.com/llsd-project/llsd" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build /llsd /llsd
# A number, because a kubelet cannot tell that a name is not root.
USER 65532:65532
ENTRYPOINT ["/llsd"]
